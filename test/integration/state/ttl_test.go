package state

import (
	"context"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// deletesOf are the controller's DELETEs of a TrainJob.
func deletesOf(t *testing.T, since cluster.AuditPosition, ns, name string) []cluster.AuditEvent {
	t.Helper()
	return requests(t, since, ns, cluster.AuditFilter{Verbs: []string{"delete"}, Resource: "trainjobs", Name: name})
}

func TestFinishedJobGoesWhenItsTTLHasPassed(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	job := completed(t, ns, "a", builders.TTL(15))
	finished := condition(t, job, trainer.TrainJobComplete).LastTransitionTime.Time
	awaitNoJob(t, ns, "a", 30*time.Second)
	deletes := deletesOf(t, before, ns, "a")
	if len(deletes) != 1 {
		t.Fatalf("want one DELETE:\n%s", listed(deletes))
	}
	if took := deletes[0].Received.Sub(finished); took < 15*time.Second || took > 17*time.Second {
		t.Errorf("deleted %v after it finished, want 15s to 17s", took)
	}
	awaitNoJobSet(t, ns, "a", soon)
}

func TestFailedJobGoesWhenItsTTLHasPassed(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a", builders.TTL(2), builders.Deadline(3)))
	env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	awaitNoJob(t, ns, "a", soon)
	awaitNoJobSet(t, ns, "a", soon)
}

func TestJobHeldByAFinalizerIsDeletedOnceAndNothingIsCreated(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "a", builders.TTL(3), func(job *trainer.TrainJob) { job.Finalizers = []string{finalizer} }))
	awaitJobSet(t, ns, "a", "", soon)
	playCompleted(t, ns, "a")
	env.AwaitState(t, ns, "a", trainer.TrainJobComplete, "", soon)
	harness.Eventually(t, soon, func() string {
		if env.Job(t, ns, "a").DeletionTimestamp.IsZero() {
			return "the job is not being deleted"
		}
		return nothing
	})

	gone := env.AuditNow(t)
	deleteJobSet(t, ns, "a")
	patchJob(t, ns, "a", anEdit)
	harness.Consistently(t, 5*time.Second, func() string {
		if env.Job(t, ns, "a").Status.State != trainer.TrainJobComplete {
			return "the job is no longer Complete"
		}
		return nothing
	})
	if deletes := deletesOf(t, before, ns, "a"); len(deletes) != 1 {
		t.Errorf("want one DELETE:\n%s", listed(deletes))
	}
	wantNoCreates(t, gone, ns)
	patchJob(t, ns, "a", letGo)
	awaitNoJob(t, ns, "a", soon)
}

func TestTTLOfZeroStillShowsTheEnd(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := trainJobs(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	env.Create(t, newJob(ns, "a", builders.TTL(0)))
	awaitJobSet(t, ns, "a", "", soon)
	playCompleted(t, ns, "a")
	seen := false
	for event := range events.ResultChan() {
		job, ok := event.Object.(*trainer.TrainJob)
		if !ok {
			t.Fatalf("unexpected event %v", event)
		}
		if event.Type == watch.Deleted {
			if !seen {
				t.Error("the job went before a watcher could see that it is Complete")
			}
			return
		}
		seen = seen || job.Status.State == trainer.TrainJobComplete
	}
	t.Fatal("the job was not deleted")
}

func TestLargestTTLKeepsTheJobAndTheControllerQuiet(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	completed(t, ns, "a", builders.TTL(math.MaxInt32))
	awaitQuiet(t, ns)
	before := env.AuditNow(t)
	harness.Consistently(t, 5*time.Second, func() string {
		if !env.Job(t, ns, "a").DeletionTimestamp.IsZero() {
			return "the job is being deleted"
		}
		return nothing
	})
	if all := requests(t, before, ns, cluster.AuditFilter{Match: notOfEvents}); len(all) > 0 {
		t.Errorf("nothing was to be asked or written, but:\n%s", listed(all))
	}
}
