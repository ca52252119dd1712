package state

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

func TestStatusOfTheJobSetWakesTheJob(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a"))
	awaitJobSet(t, ns, "a", "", soon)
	awaitQuiet(t, ns)
	playRunning(t, ns, "a")
	env.AwaitState(t, ns, "a", trainer.TrainJobRunning, "", awake)
	awaitQuiet(t, ns)
	playJobSet(t, ns, "a", builders.Jobs(builders.Waiting("node")))
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, awake)
}

func TestDeletedJobSetIsMadeAgain(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	old := awaitJobSet(t, ns, "a", "", soon)
	awaitQuiet(t, ns)
	deleteJobSet(t, ns, "a")
	awaitJobSet(t, ns, "a", old.UID, awake)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, awake)
	awaitEvent(t, ns, "a", "JobSetRecreated")
}

func TestDeletedSnapshotIsTakenAgain(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	old := awaitSnapshot(t, ns, "a", "", soon)
	editRuntime(t, ns, "torch", func(spec *trainer.TrainingRuntimeSpec) {
		spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image = "node:newer"
	})
	awaitQuiet(t, ns)
	deleteConfigMap(t, ns, old.Name)
	cm := awaitSnapshot(t, ns, "a", old.UID, awake)
	harness.Eventually(t, awake, func() string {
		job := env.Job(t, ns, "a")
		if job.Status.State != trainer.TrainJobRunning {
			t.Fatalf("the job is %s: a JobSet that runs has no need of the snapshot", job.Status.State)
		}
		if job.Status.RuntimeSnapshot.UID != cm.UID {
			return "the status does not name the new snapshot"
		}
		return nothing
	})
	awaitEvent(t, ns, "a", "RuntimeSnapshotReplaced")
}

func TestOldChildrenOfTheSameNameAreWaitedFor(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	patchJobSet(t, ns, "a", hold)
	playCompleted(t, ns, "a")
	old := env.AwaitState(t, ns, "a", trainer.TrainJobComplete, "", soon)
	oldSet, err := jobSets(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleteJob(t, ns, "a", metav1.DeletePropagationBackground)
	awaitNoJob(t, ns, "a", soon)

	job := env.Create(t, newJob(ns, "a"))
	if job.UID == old.UID {
		t.Fatal("this is the old job")
	}
	job = env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, soon)
	wantMessage(t, job, "earlier TrainJob")
	harness.Consistently(t, awake, func() string {
		if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobPending {
			return "with the old JobSet still there the new job is " + string(state)
		}
		return nothing
	})
	patchJobSet(t, ns, "a", letGo)
	awaitJobSet(t, ns, "a", oldSet.UID, awake)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, awake)
}

func TestOldSnapshotOfTheSameNameIsWaitedFor(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a", builders.Suspended(true)))
	cm := awaitSnapshot(t, ns, "a", "", soon)
	cm.Finalizers = []string{finalizer}
	cm, err := env.Core.CoreV1().ConfigMaps(ns).Update(t.Context(), cm, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleteJob(t, ns, "a", metav1.DeletePropagationBackground)
	awaitNoJob(t, ns, "a", soon)
	env.Create(t, newJob(ns, "a"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonSnapshotConflict, soon)
	wantMessage(t, job, "earlier TrainJob")
	harness.Eventually(t, soon, func() string {
		var err error
		if cm, err = env.Core.CoreV1().ConfigMaps(ns).Get(t.Context(), cm.Name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if cm.DeletionTimestamp.IsZero() {
			return "the old snapshot has not been collected yet"
		}
		return nothing
	})
	cm.Finalizers = nil
	if _, err := env.Core.CoreV1().ConfigMaps(ns).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJobSet(t, ns, "a", "", awake)
}

func TestJobSetOfAStrangerIsNotTouchedAndItsGoingIsNoticed(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	theirs := builders.JobSetOf(newJob(ns, "a"))
	theirs.OwnerReferences, theirs.Spec = nil, builders.TorchSpec().Template.Spec
	theirs, err := jobSets(ns).Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	playCompleted(t, ns, "a")
	env.Create(t, newJob(ns, "a"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, soon)
	wantMessage(t, job, `JobSet "a"`)
	if len(job.Status.JobsStatus) > 0 {
		t.Errorf("a stranger's JobSet is mirrored: %v", job.Status.JobsStatus)
	}
	setSuspend(t, ns, "a", true)
	env.AwaitState(t, ns, "a", trainer.TrainJobSuspended, "", soon)
	setSuspend(t, ns, "a", false)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, soon)
	left, err := jobSets(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || left.Generation != theirs.Generation || !left.DeletionTimestamp.IsZero() {
		t.Errorf("the stranger's JobSet was touched: %v (%v)", left, err)
	}
	deleteJobSet(t, ns, "a")
	awaitJobSet(t, ns, "a", theirs.UID, time.Minute)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
}

// awaitEvent waits until an event of the reason tells of the job.
func awaitEvent(t *testing.T, ns, name, reason string) {
	t.Helper()
	harness.Eventually(t, soon, func() string {
		events, err := env.Core.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason {
				return nothing
			}
		}
		return "no event " + reason
	})
}
