package snapshot

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// What may happen to a runtime whose jobs have their snapshots.
var upsets = map[string]func(t *testing.T, namespace string){
	"edited": func(t *testing.T, namespace string) { setImage(t, namespace, "new:1") },
	"broken": func(t *testing.T, namespace string) {
		_, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Patch(t.Context(), harness.RuntimeName, types.MergePatchType,
			[]byte(`{"spec":{"template":{"spec":{"network":{"enableDNSHostnames":false}}}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	},
	"deleted": func(t *testing.T, namespace string) {
		if err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Delete(t.Context(), harness.RuntimeName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	},
}

func TestJobsWithASnapshotNeedTheirRuntimeNoMore(t *testing.T) {
	t.Parallel()
	for name, upset := range upsets {
		t.Run("runtime "+name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, builders.TorchSpec())
			job := env.NewJob(t, namespace, "a")
			queued := env.NewJob(t, namespace, "queued", builders.Suspended(true))
			before := env.AwaitSnapshot(t, job)
			queuedBefore := env.AwaitSnapshot(t, queued)
			env.AwaitJobSet(t, job, false)
			upset(t, namespace)

			env.PatchJob(t, namespace, "a", harness.Suspend)
			env.AwaitJobSet(t, job, true)
			env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
			env.PlayHeldBack(t, namespace, "a", true)
			env.PatchJob(t, namespace, "a", harness.Resume)
			js := env.AwaitJobSet(t, job, false)
			env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
			if image := builtImage(js.Spec); image != "node:test" {
				t.Errorf("the JobSet has image %s after the runtime was %s", image, name)
			}
			env.PatchJob(t, namespace, "queued", harness.Resume)
			if image := builtImage(env.AwaitJobSet(t, queued, false).Spec); image != "node:test" {
				t.Errorf("the JobSet of the queued job has image %s after the runtime was %s", image, name)
			}
			for job, old := range map[string]types.UID{"a": before.UID, "queued": queuedBefore.UID} {
				if now := env.SnapshotOf(t, namespace, job); now == nil || now.UID != old {
					t.Errorf("the snapshot of %s is not the one it was", job)
				}
			}

			env.PatchJob(t, namespace, "a", `{"metadata":{"labels":{"team":"vision"},"finalizers":["example.com/hold"]}}`)
			env.DeleteJob(t, namespace, "a")
			env.PatchJob(t, namespace, "a", `{"metadata":{"finalizers":null}}`)
			env.AwaitGone(t, namespace, "a")
			env.DeleteNamespace(t, namespace)
		})
	}
}

func TestASnapshotNamesItsKind(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	spec := builders.TorchSpec()
	everywhere := builders.ClusterTrainingRuntime(namespace, spec)
	everywhere.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"a":"copy of all"}`, "note": "kept",
	}
	clusterRuntimes := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes()
	if _, err := clusterRuntimes.Create(t.Context(), everywhere, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clusterRuntimes.Delete(context.Background(), namespace, metav1.DeleteOptions{}) })

	for kind, name := range map[string]string{trainer.TrainingRuntimeKind: "torch", trainer.ClusterTrainingRuntimeKind: namespace} {
		job := env.NewJob(t, namespace, strings.ToLower(kind), builders.Runtime(kind, name))
		cm := env.AwaitSnapshot(t, job)
		data := cm.Data["runtime"]
		if head := "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: " + kind + "\n"; !strings.HasPrefix(data, head) {
			t.Errorf("the snapshot of a %s does not begin with its kind:\n%s", kind, data)
		}
		if strings.Contains(data, "last-applied") {
			t.Errorf("the snapshot of a %s holds kubectl's copy of it:\n%s", kind, data)
		}
		if cm.Immutable == nil || !*cm.Immutable || cm.Labels[trainer.LabelTrainJobName] != job.Name {
			t.Errorf("the snapshot of a %s is not immutable or has not our label: %v", kind, cm.ObjectMeta)
		}
		if owner := metav1.GetControllerOf(cm); owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
			t.Errorf("the snapshot of a %s does not block its owner's deletion: %v", kind, owner)
		}
		running := env.AwaitState(t, namespace, job.Name, trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
		if recorded := running.Status.RuntimeSnapshot; recorded == nil || recorded.Name != cm.Name || recorded.UID != cm.UID || !strings.HasPrefix(recorded.Digest, "sha256:") {
			t.Errorf("status.runtimeSnapshot is %+v, want that of ConfigMap %s", recorded, cm.Name)
		}
	}
}

func TestASnapshotDeletedByHandIsTakenAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	job := env.NewJob(t, namespace, "a")
	queued := env.NewJob(t, namespace, "queued", builders.Suspended(true))
	js := env.AwaitJobSet(t, job, false)
	lost := map[string]*trainer.TrainJob{}
	for _, j := range []*trainer.TrainJob{job, queued} {
		env.AwaitSnapshot(t, j)
		harness.Eventually(t, harness.Soon, func() string {
			if lost[j.Name] = env.Job(t, namespace, j.Name); lost[j.Name].Status.RuntimeSnapshot == nil {
				return "status.runtimeSnapshot of " + j.Name + " is empty"
			}
			return ""
		})
	}
	setImage(t, namespace, "new:1")
	for name := range lost {
		if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name+"-runtime-snapshot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, before := range lost {
		harness.Eventually(t, harness.Soon, func() string {
			now := env.Job(t, namespace, name).Status.RuntimeSnapshot
			if now == nil || now.UID == before.Status.RuntimeSnapshot.UID || now.Digest == before.Status.RuntimeSnapshot.Digest {
				return "status.runtimeSnapshot of " + name + " still names the lost one"
			}
			return ""
		})
		env.AwaitEvent(t, namespace, name, "Warning/RuntimeSnapshotReplaced")
	}
	if now := env.JobSetOf(t, namespace, "a"); now.Generation != js.Generation || now.UID != js.UID {
		t.Error("the JobSet was changed because the snapshot was replaced")
	}
	env.PatchJob(t, namespace, "queued", harness.Resume)
	if image := builtImage(env.AwaitJobSet(t, queued, false).Spec); image != "new:1" {
		t.Errorf("the queued job runs with image %s, want that of its new snapshot", image)
	}
}

// Without a runtime and without a snapshot nothing can be built, but what exists is
// still suspended, resumed and ended.
func TestAJobThatHasLostEverythingButItsJobSetGoesOn(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	job := env.NewJob(t, namespace, "a")
	env.AwaitJobSet(t, job, false)
	upsets["deleted"](t, namespace)
	if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "a-runtime-snapshot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitJobSet(t, job, true)
	env.PatchJob(t, namespace, "a", harness.Resume)
	env.PlayHeldBack(t, namespace, "a", true)
	env.AwaitJobSet(t, job, false)
	setJobSetStatus(t, namespace, "a", counting(builders.Ready("node")))
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	setJobSetStatus(t, namespace, "a", completed)
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
}

// A change of the patches needs the snapshot. Until it can be taken again the job says
// what it waits for.
func TestPatchesThatCannotBeAppliedAreWaitedFor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	job := env.NewJob(t, namespace, "a")
	env.AwaitJobSet(t, job, false)
	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitJobSet(t, job, true)
	env.PlayHeldBack(t, namespace, "a", true)
	upsets["deleted"](t, namespace)
	// The two deletions are told by two watches: a controller that heard of the second
	// first would take the snapshot again from the runtime it still knows.
	harness.Consistently(t, time.Second, func() string { return "" })
	if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "a-runtime-snapshot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.PatchJob(t, namespace, "a", `{"spec":{"suspend":false,"runtimePatches":[{"manager":"example.com/m","trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[
		{"name":"node","template":{"spec":{"template":{"spec":{"nodeSelector":{"zone":"b"}}}}}}]}}}}]}}`)
	pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonSnapshotInvalid, harness.Soon)
	if !strings.Contains(pending.Status.Message, "a-runtime-snapshot") {
		t.Errorf("the message does not name the snapshot: %s", pending.Status.Message)
	}
	env.AwaitJobSet(t, job, true)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	js := env.AwaitJobSet(t, job, false)
	if zone := js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector["zone"]; zone != "b" {
		t.Errorf("the JobSet was resumed in zone %q, want b", zone)
	}
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
}
