package state

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// wantFailedAt checks when a job was failed by its deadline. The API keeps whole
// seconds.
func wantFailedAt(t *testing.T, job *trainer.TrainJob, seconds int) {
	t.Helper()
	took := condition(t, job, trainer.TrainJobFailed).LastTransitionTime.Sub(job.CreationTimestamp.Time)
	want := time.Duration(seconds) * time.Second
	if took < want || took > want+2*time.Second {
		t.Errorf("failed %v after its creation, want %v", took, want)
	}
}

func TestEarlyWakeUpsDoNotEatTheDeadlineTimer(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a", builders.Deadline(30))
	paced(t, 200*time.Millisecond, 8*time.Second, func(i int) {
		if i%2 == 0 {
			playJobSet(t, ns, "a", builders.Jobs(builders.Waiting("node")))
		} else {
			playRunning(t, ns, "a")
		}
	})
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 40*time.Second)
	wantFailedAt(t, job, 30)
	awaitNoJobSet(t, ns, "a", soon)
}

func TestHugeDeadlinesNeverPass(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	names := map[string]int64{
		"just-below-a-duration": 9223372036, "just-above-a-duration": 9223372037,
		"wraps-to-zero": 18446744074, "largest": math.MaxInt64,
	}
	for name, seconds := range names {
		running(t, ns, name, builders.Deadline(seconds))
	}
	harness.Consistently(t, 5*time.Second, func() string {
		for name := range names {
			if job := env.Job(t, ns, name); job.Status.State != trainer.TrainJobRunning {
				return name + " is " + string(job.Status.State)
			}
		}
		return nothing
	})
}

func TestDeadlineRunsOnWhileSuspended(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "a", builders.Suspended(true), builders.Deadline(10)))
	env.AwaitState(t, ns, "a", trainer.TrainJobSuspended, "", soon)
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	wantFailedAt(t, job, 10)
	setSuspend(t, ns, "a", false)
	harness.Consistently(t, awake, func() string {
		if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobFailed {
			return "the failed job is " + string(state)
		}
		return nothing
	})
	for _, e := range requests(t, before, ns, auditCreatesOf("jobsets")) {
		t.Errorf("a JobSet was created for a job that never ran: %v", e)
	}
}

func TestLingeringJobSetThatCompletesDoesNotChangeTheVerdict(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a", builders.Deadline(10)))
	awaitJobSet(t, ns, "a", "", soon)
	patchJobSet(t, ns, "a", hold)
	playRunning(t, ns, "a")
	failed := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	harness.Eventually(t, soon, func() string {
		js, err := jobSets(ns).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		// That the deletion is in the foreground cannot be seen for long: without children
		// the garbage collector takes its finalizer off in a moment.
		if js.DeletionTimestamp.IsZero() {
			return fmt.Sprintf("the JobSet is not being deleted; its finalizers are %v", js.Finalizers)
		}
		return nothing
	})

	playCompleted(t, ns, "a")
	harness.Eventually(t, soon, func() string {
		if jobs := env.Job(t, ns, "a").Status.JobsStatus; len(jobs) != 1 || jobs[0].Succeeded != 1 {
			return "the counters do not follow the JobSet"
		}
		return nothing
	})
	job := env.Job(t, ns, "a")
	if got := terminalConditions(job); len(got) != 1 || got[0] != string(trainer.TrainJobFailed) {
		t.Errorf("terminal conditions %v, want Failed alone", got)
	}
	before, after := condition(t, failed, trainer.TrainJobFailed), condition(t, job, trainer.TrainJobFailed)
	if before != after {
		t.Errorf("the condition was %v and is %v", before, after)
	}

	patchJobSet(t, ns, "a", letGo)
	awaitNoJobSet(t, ns, "a", soon)
	harness.Eventually(t, soon, func() string {
		if jobs := env.Job(t, ns, "a").Status.JobsStatus; len(jobs) != 1 || jobs[0] != (trainer.JobStatus{Name: "node"}) {
			return "the counters of a JobSet that is gone are not zero"
		}
		return nothing
	})
}

func TestNewJobOfTheSameNameHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a", builders.Deadline(12))
	deleteJob(t, ns, "a", metav1.DeletePropagationBackground)
	awaitNoJob(t, ns, "a", soon)
	created := env.Create(t, newJob(ns, "a", builders.Deadline(20)))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 40*time.Second)
	if job.UID != created.UID {
		t.Fatal("this is another job")
	}
	wantFailedAt(t, job, 20)
}
