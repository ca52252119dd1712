package operations

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	kubemetrics "k8s.io/component-base/metrics"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// replica is a StatusWriter and what it has measured. Replicas share the API server.
type replica struct {
	*StatusWriter
	t        *testing.T
	registry kubemetrics.KubeRegistry
}

func newReplica(t *testing.T, job *trainer.TrainJob) (*replica, *trainerfake.Clientset) {
	t.Helper()
	client := fakes.Trainer(job.DeepCopy())
	r := &replica{StatusWriter: NewStatusWriter(client.TrainerV1alpha1(), record.NewFakeRecorder(100)), t: t}
	r.restart()
	return r, client
}

// restart forgets everything, as a new process does.
func (r *replica) restart() {
	m := metrics.New()
	r.registry = kubemetrics.NewKubeRegistry()
	if err := m.Register(r.registry.Register, r.registry.CustomRegister); err != nil {
		r.t.Fatal(err)
	}
	r.Measuring(m)
	r.pacer = pacer{}
}

// measured is what was recorded since the start: metric, label, number, sum of seconds.
func (r *replica) measured() []string {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		moment, ours := strings.CutPrefix(family.GetName(), "trainjob_controller_trainjob_")
		if !ours {
			continue
		}
		for _, series := range family.GetMetric() {
			h := series.GetHistogram()
			all = append(all, fmt.Sprintf("%s %s: %d in %gs", strings.TrimSuffix(moment, "_delay_seconds"), series.GetLabel()[0].GetValue(), h.GetSampleCount(), h.GetSampleSum()))
		}
	}
	return all
}

// see reports an observation some seconds after the epoch and takes over the status, as
// the cache does after the write.
func (r *replica) see(job *trainer.TrainJob, seen trainjob.Observed, at int) {
	r.t.Helper()
	now := builders.At(at).Add(700 * time.Millisecond)
	if _, err := r.Report(r.t.Context(), job, seen, now); err != nil {
		r.t.Fatal(err)
	}
	job.Status = *trainjob.Next(job, seen, now)
	job.ResourceVersion = fmt.Sprint(at, job.Status.State) // another one, so that the pacer sees the cache has caught up
	r.pacer = pacer{}
}

func of(js *jobset.JobSet) trainjob.Observed { return trainjob.Observed{JobSet: js} }

func TestEachMomentOfALifeIsRecordedOnce(t *testing.T) {
	job := builders.TrainJob("a")
	r, _ := newReplica(t, job)
	waiting := builders.JobSetOf(job)
	running := builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))
	for at, js := range []*jobset.JobSet{waiting, running, waiting, running} { // two restarts of its pods
		r.see(job, of(js), 3+at)
	}
	want := []string{"jobset false: 1 in 3s", "running false: 1 in 4s"}
	if diff := cmp.Diff(want, r.measured()); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}

	r.restart()
	r.see(job, of(running), 10)
	r.see(job, of(builders.JobSetOf(job, builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done"))), 20)
	r.see(job, trainjob.Observed{}, 30)
	if diff := cmp.Diff([]string{"finish Complete: 1 in 20s"}, r.measured()); diff != "" {
		t.Errorf("measured after a restart (-want +got):\n%s", diff)
	}
}

func TestAJobThatWasSuspendedIsRecordedAsQueued(t *testing.T) {
	job := builders.TrainJob("a", builders.Suspended(true))
	r, _ := newReplica(t, job)
	r.see(job, trainjob.Observed{}, 1)
	off := false
	job.Spec.Suspend = &off
	r.see(job, of(builders.JobSetOf(job)), 50)
	r.see(job, of(builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))), 60)
	want := []string{"jobset true: 1 in 50s", "running true: 1 in 60s"}
	if diff := cmp.Diff(want, r.measured()); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}

func TestAJobThatNeverStartsIsRecordedWhenItFails(t *testing.T) {
	job := builders.TrainJob("a")
	r, _ := newReplica(t, job)
	r.see(job, trainjob.Observed{Failure: &trainjob.Cause{Reason: trainer.ReasonDeadlineExceeded, Message: "late"}}, 30)
	// Another writer takes the state away; it is repaired, and that is no second end.
	job.Status.State = ""
	r.see(job, trainjob.Observed{}, 40)
	if diff := cmp.Diff([]string{"finish Failed: 1 in 30s"}, r.measured()); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}

func TestTheStartOfAJobThatWasTakenOverIsNotMadeUp(t *testing.T) {
	job := builders.TrainJob("a", builders.Condition("Suspended", "Suspended", builders.At(1)))
	r, _ := newReplica(t, job)
	r.see(job, of(builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))), 5000)
	if got := r.measured(); got != nil {
		t.Errorf("measured %v of what another controller did", got)
	}
	r.see(job, of(builders.JobSetOf(job, builders.Ended(jobset.JobSetFailed, "FailedJobs", "broken"))), 6000)
	if diff := cmp.Diff([]string{"finish Failed: 1 in 6000s"}, r.measured()); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}

func TestAWriteThatFailsIsNotRecorded(t *testing.T) {
	job := builders.TrainJob("a")
	r, client := newReplica(t, job)
	conflict := apierrors.NewConflict(trainer.Resource("trainjobs"), "a", errors.New("it has changed"))
	client.PrependReactor("patch", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	if _, err := r.Report(t.Context(), job, of(builders.JobSetOf(job)), builders.At(3)); !apierrors.IsConflict(err) {
		t.Fatalf("error %v, want the conflict", err)
	}
	if got := r.measured(); got != nil {
		t.Errorf("measured %v: the other writer has recorded it", got)
	}
}
