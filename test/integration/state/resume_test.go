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

const fromResume = "--active-deadline-from=resume"

// countFromResume runs the controller with deadlines that count from the last resume,
// until the test ends. What it returns kills that controller and starts another.
func countFromResume(t *testing.T) (kill, start func()) {
	t.Helper()
	env.WithoutController(t)
	start = func() {
		t.Helper()
		if err := env.StartController(context.Background(), fromResume); err != nil {
			t.Fatal(err)
		}
	}
	kill = func() {
		t.Helper()
		if err := env.KillController(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // before the one of stopController, which finds no controller then
		if err := env.StopController(); err != nil {
			t.Error(err)
		}
	})
	start()
	return kill, start
}

// resumedAt is when the controller has noted that the job was resumed.
func resumedAt(t *testing.T, ns, name string) time.Time {
	t.Helper()
	var at time.Time
	harness.Eventually(t, soon, func() string {
		noted := env.Job(t, ns, name).Status.ResumeTime
		if noted == nil {
			return "the resume is not noted"
		}
		at = noted.Time
		return nothing
	})
	return at
}

// wantFailedAfter checks that a job was failed by its deadline a time after a moment.
func wantFailedAfter(t *testing.T, job *trainer.TrainJob, start time.Time, want time.Duration) {
	t.Helper()
	took := condition(t, job, trainer.TrainJobFailed).LastTransitionTime.Sub(start)
	if took < want || took > want+3*time.Second {
		t.Errorf("job %s failed %v after %v, want %v", job.Name, took, start, want)
	}
}

func TestDeadlineThatCountsFromTheResume(t *testing.T) {
	ns := setUp(t)
	kill, start := countFromResume(t)
	const limit = 12 * time.Second
	never := env.Create(t, newJob(ns, "never-suspended", builders.Deadline(12)))
	env.Create(t, newJob(ns, "held", builders.Suspended(true), builders.Deadline(12)))
	env.Create(t, newJob(ns, "again", builders.Deadline(12)))
	awaitJobSet(t, ns, "again", "", soon)
	playRunning(t, ns, "again")
	env.AwaitState(t, ns, "again", trainer.TrainJobRunning, "", soon)
	setSuspend(t, ns, "again", true)
	env.AwaitState(t, ns, "again", trainer.TrainJobSuspended, "", soon)
	env.PlayHeldBack(t, ns, "again", true)

	job := env.AwaitState(t, ns, "never-suspended", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, time.Minute)
	wantFailedAfter(t, job, never.CreationTimestamp.Time, limit)
	awaitNoJobSet(t, ns, "never-suspended", soon)

	// The two others have been there for as long, but not active.
	for _, name := range []string{"held", "again"} {
		env.AwaitState(t, ns, name, trainer.TrainJobSuspended, "", soon)
		setSuspend(t, ns, name, false)
	}
	began := map[string]time.Time{"held": resumedAt(t, ns, "held"), "again": resumedAt(t, ns, "again")}
	env.AwaitState(t, ns, "held", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	kill()
	start() // finds the moment in the objects
	for name, resumed := range began {
		job := env.AwaitState(t, ns, name, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, time.Minute)
		wantFailedAfter(t, job, resumed, limit)
		awaitNoJobSet(t, ns, name, soon)
	}
}

func TestResumesWhileTheControllerIsDownAreNotFailedByOldTimes(t *testing.T) {
	ns := setUp(t)
	kill, start := countFromResume(t)
	const seconds, limit = 8, 8 * time.Second
	env.Create(t, newJob(ns, "noted", builders.Suspended(true), builders.Deadline(seconds)))
	env.AwaitState(t, ns, "noted", trainer.TrainJobSuspended, "", soon)
	env.Create(t, newJob(ns, "suspended-unnoted", builders.Deadline(seconds)))
	awaitJobSet(t, ns, "suspended-unnoted", "", soon)
	env.AwaitState(t, ns, "suspended-unnoted", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	kill()

	setSuspend(t, ns, "noted", false)
	setSuspend(t, ns, "suspended-unnoted", true)
	env.Create(t, newJob(ns, "unseen", builders.Suspended(true), builders.Deadline(seconds)))
	setSuspend(t, ns, "unseen", false)
	last := env.Create(t, newJob(ns, "overdue", builders.Deadline(seconds)))
	until(t, last.CreationTimestamp.Add(limit+2*time.Second)) // beyond the deadline of each, if it counted from its creation

	start()
	env.AwaitState(t, ns, "overdue", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	env.AwaitState(t, ns, "suspended-unnoted", trainer.TrainJobSuspended, "", soon)
	began := map[string]time.Time{}
	for _, name := range []string{"noted", "unseen"} {
		began[name] = resumedAt(t, ns, name)
		if began[name].Before(last.CreationTimestamp.Time) {
			t.Errorf("%s was noted as resumed at %v, before the controller was there", name, began[name])
		}
		awaitRecorded(t, ns, name, awaitSnapshot(t, ns, name, "", soon)) // it goes on
	}
	for name, resumed := range began {
		job := env.AwaitState(t, ns, name, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, time.Minute)
		wantFailedAfter(t, job, resumed, limit)
	}
	if state := env.Job(t, ns, "suspended-unnoted").Status.State; state != trainer.TrainJobSuspended {
		t.Errorf("a suspended job is %s", state)
	}
	if env.SnapshotOf(t, ns, "overdue") != nil || env.JobSetOf(t, ns, "overdue") != nil {
		t.Error("something was created for a job that was overdue")
	}
}
