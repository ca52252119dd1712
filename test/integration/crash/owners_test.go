package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
	"github.com/trainjob/controller/test/trainerv23"
)

var otherManager = scenario{
	once: true,
	before: func(t *testing.T, s *story) {
		torch(t, s)
		env.NewJob(t, s.namespace, "a", builders.ManagedBy(trainer.ManagedByMultiKueue), builders.Deadline(1), builders.TTL(0))
	},
	during: func(t *testing.T, s *story) {
		harness.Consistently(t, 10*time.Second, func() string {
			if status := env.Job(t, s.namespace, "a").Status; status.State != "" {
				return "the job of another controller has a state"
			}
			return ""
		})
	},
	after: func(t *testing.T, s *story) {
		if n := tried(t, s.since, s.namespace, "", ""); n > 0 {
			t.Errorf("%d writes for a job of another controller", n)
		}
	},
}

var foreground = scenario{
	once:   true,
	before: torch,
	during: func(t *testing.T, s *story) {
		env.NewJob(t, s.namespace, "a")
		jobSetOf(t, s, "a")
		snapshotOf(t, s, "a")
		setFinalizers(t, s, "a", held)
		jobs := env.Trainer.TrainerV1alpha1().TrainJobs(s.namespace)
		propagation := metav1.DeletePropagationForeground
		s.mark = env.AuditNow(t)
		if err := jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			t.Fatal(err)
		}
		// The garbage collector may have been faster.
		if err := env.Core.CoreV1().ConfigMaps(s.namespace).Delete(t.Context(), "a-runtime-snapshot", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		harness.Consistently(t, 5*time.Second, func() string {
			if env.Job(t, s.namespace, "a").DeletionTimestamp.IsZero() {
				return "the job is not being deleted"
			}
			return ""
		})
		setFinalizers(t, s, "a", "null")
		env.AwaitGone(t, s.namespace, "a")
	},
	after: func(t *testing.T, s *story) {
		// A create that was on its way when the job was deleted is none of those.
		if n := tried(t, s.mark, s.namespace, "create", ""); n > 0 {
			t.Errorf("%d objects were created for a job that was being deleted", n)
		}
	},
}

var oldJobSet = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		env.NewJob(t, s.namespace, "a")
		old := jobSetOf(t, s, "a")
		setFinalizers(t, s, "a", held)
		play(t, s, "a", completed()...)
		await(t, s, "a", trainer.TrainJobComplete, "AllJobsCompleted")
		env.DeleteJob(t, s.namespace, "a")
		harness.Eventually(t, patience, func() string {
			if env.JobSetOf(t, s.namespace, "a").DeletionTimestamp.IsZero() {
				return "the old JobSet is not being deleted"
			}
			return ""
		})
		env.NewJob(t, s.namespace, "a")
		await(t, s, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict)
		harness.Consistently(t, 4*time.Second, func() string {
			if state := env.Job(t, s.namespace, "a").Status.State; state != trainer.TrainJobPending {
				return fmt.Sprintf("the new job is %s by the old JobSet", state)
			}
			return ""
		})
		setFinalizers(t, s, "a", "null")
		if fresh := jobSetOf(t, s, "a"); fresh.UID == old.UID {
			t.Error("the new job has the old JobSet")
		}
	},
	after: func(t *testing.T, s *story) {
		await(t, s, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods)
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 2, "create jobsets": 2, "delete jobsets": 0})
	},
}

// selecting is a patch of a job that makes its training pods choose their nodes and
// resumes it.
func selecting(value string) string {
	return fmt.Sprintf(`{"spec":{"suspend":false,"runtimePatches":[{"manager":"kueue.x-k8s.io/manager","trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[
		{"name":"node","template":{"spec":{"template":{"spec":{"nodeSelector":{"zone":%q}}}}}}]}}}}]}}`, value)
}

// awaitSelecting waits until the JobSet of a job runs with a node selector.
func awaitSelecting(t *testing.T, s *story, name, value string) {
	t.Helper()
	awaitSuspended(t, s, name, false)
	got := env.JobSetOf(t, s.namespace, name).Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector
	if diff := cmp.Diff(map[string]string{"zone": value}, got); diff != "" {
		t.Errorf("node selector of the JobSet of %s (-want +got):\n%s", name, diff)
	}
}

var suspendResume = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		env.NewJob(t, s.namespace, "a")
		first := jobSetOf(t, s, "a")
		for _, zone := range []string{"x", "y"} {
			env.PatchJob(t, s.namespace, "a", harness.Suspend)
			awaitSuspended(t, s, "a", true)
			env.PlayHeldBack(t, s.namespace, "a", true)
			env.PatchJob(t, s.namespace, "a", selecting(zone))
			awaitSelecting(t, s, "a", zone)
			env.PlayHeldBack(t, s.namespace, "a", false)
		}
		if now := jobSetOf(t, s, "a"); now.UID != first.UID {
			t.Error("the JobSet is another one")
		}
	},
	after: func(t *testing.T, s *story) {
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 1, "create jobsets": 1, "update jobsets": 2, "delete jobsets": 0})
	},
}

var takenOver = scenario{
	before: func(t *testing.T, s *story) {
		if err := trainerv23.CreateRuntimes(t.Context(), env.Dynamic, s.namespace); err != nil {
			t.Fatal(err)
		}
		for _, job := range []string{trainerv23.Running, trainerv23.Queued, trainerv23.Finished} {
			if err := trainerv23.Create(t.Context(), env.Dynamic, s.namespace, job, trainerv23.Options{JobSetStatus: true}); err != nil {
				t.Fatal(err)
			}
			s.memory[job] = string(env.SnapshotOf(t, s.namespace, job).UID)
		}
		s.memory["finished version"] = env.Job(t, s.namespace, trainerv23.Finished).ResourceVersion
	},
	during: func(t *testing.T, s *story) {
		for job, state := range map[string]trainer.TrainJobState{trainerv23.Running: trainer.TrainJobRunning, trainerv23.Queued: trainer.TrainJobSuspended} {
			if cm := snapshotOf(t, s, job); string(cm.UID) != s.memory[job] || cm.Labels[trainer.LabelTrainJobName] != job {
				t.Errorf("the snapshot of %s was not adopted: %s %v", job, cm.UID, cm.Labels)
			}
			await(t, s, job, state, "")
		}
		env.PatchJob(t, s.namespace, trainerv23.Queued, selecting("x"))
		awaitSelecting(t, s, trainerv23.Queued, "x")
	},
	after: func(t *testing.T, s *story) {
		if now := env.Job(t, s.namespace, trainerv23.Finished).ResourceVersion; now != s.memory["finished version"] {
			t.Error("the finished job was written to")
		}
		// The suspended JobSet is brought up to date at the takeover, which changes nothing
		// but its annotation, and for the new patch, and is resumed. The new patch takes a
		// key away, so that the Jobs are noted to be made anew; taking that note off may be
		// repeated by a controller that sees its own write late.
		if generation := env.JobSetOf(t, s.namespace, trainerv23.Queued).Generation; generation != 3 {
			t.Errorf("the JobSet has generation %d, want 3: created, patched, resumed", generation)
		}
		atMost(t, counted(t, s.since, s.namespace), map[string]int{
			"create configmaps": 0, "patch configmaps": 2, "create jobsets": 0, "update jobsets": 2, "patch jobsets": 3,
		})
	},
}
