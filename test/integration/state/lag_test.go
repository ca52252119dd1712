package state

import (
	"context"
	"testing"
	"time"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// None of the tests in this file is parallel: they stop what the others need.

// throughHolder runs the controller behind a holder of watches until the test ends.
func throughHolder(t *testing.T) *harness.WatchHolder {
	t.Helper()
	env.WithoutController(t)
	holder := harness.NewWatchHolder(t, env.Config)
	c, err := harness.StartController(context.Background(), env.Binary, holder.Kubeconfig(t, env.ControllerKubeconfig()), env.LogFile(), env.Flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return holder
}

// wantCompleteWithItsJobSet checks that a job has not been failed for its deadline, and
// that what it has left is still there.
func wantCompleteWithItsJobSet(t *testing.T, ns, name string) {
	t.Helper()
	env.AwaitState(t, ns, name, trainer.TrainJobComplete, "AllJobsCompleted", soon)
	if js := env.JobSetOf(t, ns, name); js == nil || js.DeletionTimestamp != nil {
		t.Error("the JobSet that has completed was deleted")
	}
}

func TestAJobThatCompletedInTimeIsCompleteHoweverFarTheWatchLagsBehind(t *testing.T) {
	ns := setUp(t)
	holder := throughHolder(t)
	job := running(t, ns, "a", builders.Deadline(10))
	holder.Hold("jobsets")
	playCompleted(t, ns, "a")
	until(t, job.CreationTimestamp.Add(14*time.Second)) // the deadline comes, and the cache knows nothing of the end
	wantCompleteWithItsJobSet(t, ns, "a")
	holder.Release("jobsets")
	env.AwaitState(t, ns, "a", trainer.TrainJobComplete, "AllJobsCompleted", soon)
}

// The JobSet ends after the job was failed for its deadline and before it is deleted: the
// deletion is made on what is there and not on what the watch has told.
func TestAJobSetThatHasEndedIsNotDeletedForADeadline(t *testing.T) {
	ns := setUp(t)
	holder := throughHolder(t)
	job := running(t, ns, "a", builders.Deadline(10))
	holder.Hold("trainjobs") // the failure is written and does not come back
	env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 30*time.Second)
	holder.Hold("jobsets")
	playCompleted(t, ns, "a")
	holder.Release("trainjobs")
	harness.Consistently(t, 3*time.Second, func() string {
		if js := env.JobSetOf(t, ns, "a"); js == nil || js.DeletionTimestamp != nil {
			return "the JobSet that has completed was deleted"
		}
		return nothing
	})
	holder.Release("jobsets")
	if now := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon); now.UID != job.UID {
		t.Errorf("this is another job: %s", now.UID)
	}
}

func TestAJobThatCompletedWhileTheControllerStoodStillIsComplete(t *testing.T) {
	ns := setUp(t)
	job := running(t, ns, "a", builders.Deadline(8))
	resume := pauseController(t)
	playCompleted(t, ns, "a")
	until(t, job.CreationTimestamp.Add(10*time.Second))
	resume()
	wantCompleteWithItsJobSet(t, ns, "a")
}
