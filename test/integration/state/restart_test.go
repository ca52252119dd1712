package state

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// None of the tests in this file is parallel: they stop what the others need.

func killController(t *testing.T) {
	t.Helper()
	if err := env.KillController(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.WithController(t) })
}

// pauseController makes the process stand still, until the function it returns is called.
func pauseController(t *testing.T) (resume func()) {
	t.Helper()
	pid := env.Controller.Pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	return resume
}

// until waits for a moment.
func until(t *testing.T, moment time.Time) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(time.Until(moment)):
	}
}

func TestDeadlinesThatPassWhileTheControllerIsDownCreateNothing(t *testing.T) {
	ns := setUp(t)
	completedMeanwhile := running(t, ns, "completed", builders.Deadline(6))
	env.WithoutController(t)
	const jobs = 20
	for i := range jobs {
		env.Create(t, newJob(ns, fmt.Sprintf("late-%d", i), builders.Deadline(5), builders.Suspended(i%2 == 0)))
	}
	playCompleted(t, ns, "completed")
	until(t, completedMeanwhile.CreationTimestamp.Add(6*time.Second))
	until(t, time.Now().Add(6*time.Second))

	before := env.AuditNow(t)
	env.WithController(t)
	for i := range jobs {
		env.AwaitState(t, ns, fmt.Sprintf("late-%d", i), trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	}
	wantNoCreates(t, before, ns)
	// An end that the JobSet has come to counts more than the deadline.
	env.AwaitState(t, ns, "completed", trainer.TrainJobComplete, "AllJobsCompleted", soon)
}

func TestJobsWhoseTTLRunsAcrossAStopAreDeletedOnTime(t *testing.T) {
	ns := setUp(t)
	completed(t, ns, "overdue", builders.TTL(2))
	job := completed(t, ns, "waiting", builders.TTL(10))
	env.WithoutController(t)
	finished := condition(t, job, trainer.TrainJobComplete).LastTransitionTime.Time
	until(t, finished.Add(4*time.Second))
	before := env.AuditNow(t)
	env.WithController(t)
	awaitNoJob(t, ns, "overdue", soon)
	awaitNoJob(t, ns, "waiting", soon)
	deletes := deletesOf(t, before, ns, "waiting")
	if len(deletes) != 1 {
		t.Fatalf("want one DELETE:\n%s", listed(deletes))
	}
	if took := deletes[0].Received.Sub(finished); took < 10*time.Second || took > 12*time.Second {
		t.Errorf("deleted %v after it finished, want 10s to 12s", took)
	}
}

func TestRefusedDeletionOfAnOverdueJobSetIsRetriedAcrossARestart(t *testing.T) {
	ns := setUp(t)
	allow := forbidJobSets(t, ns, admission.Delete)
	running(t, ns, "a", builders.Deadline(8))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, soon)
	wantFailedAt(t, job, 8)
	refused := func(since cluster.AuditPosition) func() string {
		return func() string {
			tries := requests(t, since, ns, cluster.AuditFilter{Verbs: []string{"delete"}, Resource: "jobsets", Name: "a"})
			if len(tries) < 2 {
				return fmt.Sprintf("%d tries to delete the JobSet, want more", len(tries))
			}
			return nothing
		}
	}
	harness.Eventually(t, soon, refused(0))
	env.WithoutController(t)
	between := env.AuditNow(t)
	env.WithController(t)
	harness.Eventually(t, soon, refused(between))
	allow()
	// Nobody touches the job or the JobSet: it is the backoff that brings the next try.
	awaitNoJobSet(t, ns, "a", time.Minute)
	if got := terminalConditions(env.Job(t, ns, "a")); len(got) != 1 || got[0] != string(trainer.TrainJobFailed) {
		t.Errorf("terminal conditions %v, want Failed alone", got)
	}
}

func TestKilledControllerLosesAndDoublesNothing(t *testing.T) {
	ns := setUp(t)
	before := env.AuditNow(t)
	const jobs = 12
	for i := range jobs {
		env.Create(t, newJob(ns, fmt.Sprintf("a%d", i)))
		if i%4 == 3 {
			killController(t)
			env.WithController(t)
		}
	}
	for i := range jobs {
		name := fmt.Sprintf("a%d", i)
		awaitJobSet(t, ns, name, "", soon)
		env.AwaitState(t, ns, name, trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
		awaitRecorded(t, ns, name, awaitSnapshot(t, ns, name, "", soon))
	}
	// A request that the kill has cut off is carried out all the same, but not logged as
	// a success: there may be fewer of those than jobs, but not more.
	for _, resource := range []string{"configmaps", "jobsets"} {
		made := requests(t, before, ns, cluster.AuditFilter{
			Verbs: []string{"create"}, Resource: resource, Match: func(e cluster.AuditEvent) bool { return e.Code == 201 },
		})
		if len(made) > jobs {
			t.Errorf("%d %s were created for %d jobs:\n%s", len(made), resource, jobs, listed(made))
		}
	}
}

func TestWhatIsDeletedWhileTheWatchIsCutIsNoticed(t *testing.T) {
	ns := setUp(t)
	running(t, ns, "a")
	old := awaitJobSet(t, ns, "a", "", soon)
	snapshot := awaitSnapshot(t, ns, "a", "", soon)

	// While the process stands still it cannot come back to its watches before the
	// deletions are over.
	resume := pauseController(t)
	if err := env.Cluster.StopComponent(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := env.Cluster.StartComponent(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, func() string {
		if _, err := jobSets(ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			return err.Error() // the client has yet to notice that its connection is gone
		}
		return nothing
	})
	deleteJobSet(t, ns, "a")
	deleteConfigMap(t, ns, snapshot.Name)
	resume()
	awaitSnapshot(t, ns, "a", snapshot.UID, time.Minute)
	awaitJobSet(t, ns, "a", old.UID, time.Minute)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, time.Minute)
}

func TestChildrenThatHaveGoneWithTheirJobsAreNotMadeAgain(t *testing.T) {
	ns := setUp(t)
	const jobs = 30
	for i := range jobs {
		running(t, ns, fmt.Sprintf("a%d", i))
	}
	awaitQuiet(t, ns)
	before := env.AuditNow(t)
	// Afterwards the watches tell of the jobs and of their children in whatever order.
	resume := pauseController(t)
	background := metav1.DeletePropagationBackground
	if err := trainJobs(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		awaitNoJobSet(t, ns, fmt.Sprintf("a%d", i), time.Minute)
	}
	resume()
	harness.Eventually(t, soon, func() string {
		list, err := env.Core.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{LabelSelector: trainer.LabelTrainJobName})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%d snapshots are left", len(list.Items))
		}
		return nothing
	})
	awaitQuiet(t, ns)
	wantNoCreates(t, before, ns)
}

func TestRestartedControllerWritesNothingWhenNothingHasHappened(t *testing.T) {
	ns := setUp(t)
	running(t, ns, "running", builders.Deadline(3600))
	completed(t, ns, "completed", builders.TTL(3600))
	env.Create(t, newJob(ns, "held", builders.Suspended(true)))
	env.Create(t, newJob(ns, "lost", builders.Runtime(trainer.TrainingRuntimeKind, "missing")))
	env.AwaitState(t, ns, "held", trainer.TrainJobSuspended, "", soon)
	env.AwaitState(t, ns, "lost", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, soon)
	harness.Eventually(t, soon, func() string {
		if env.Job(t, ns, "held").Status.RuntimeSnapshot == nil {
			return "the snapshot of the suspended job is not recorded"
		}
		return nothing
	})
	awaitQuiet(t, ns)
	env.WithoutController(t)
	before := env.AuditNow(t)
	env.WithController(t)
	harness.Consistently(t, 3*time.Second, func() string {
		env.Job(t, ns, "running")
		return nothing
	})
	if writes := requests(t, before, ns, cluster.AuditFilter{Writes: true}); len(writes) > 0 {
		t.Errorf("nothing was to be written, but:\n%s", listed(writes))
	}
}
