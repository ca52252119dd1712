package webhook

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// holding is a runtime whose training pods run until somebody lets them go.
func holding() trainer.TrainingRuntimeSpec {
	spec := builders.TorchSpec()
	pod := &spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, cluster.HoldAnnotation, cluster.HoldRunning)
	return spec
}

// Serial, as all tests that stop the server.
func TestWhatLeavesSpecAlonePassesWhileNobodyAnswers(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding())
	env.NewJob(t, namespace, "runs")
	env.NewJob(t, namespace, "queued", builders.Suspended(true))
	env.AwaitState(t, namespace, "runs", trainer.TrainJobRunning, "", harness.Soon)
	env.AwaitState(t, namespace, "queued", trainer.TrainJobSuspended, "", harness.Soon)
	withoutServer(t)

	for _, name := range []string{"runs", "queued"} {
		env.PatchJob(t, namespace, name, `{"metadata":{"labels":{"team":"vision"},"annotations":{"a":"b"},"finalizers":["example.com/hold"]}}`)
		status := []byte(`{"status":{"trainerStatus":{"progressPercentage":50,"lastUpdatedTime":"2026-01-01T00:00:00Z"}}}`)
		if _, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			t.Errorf("status of %s: %v", name, err)
		}
		out, err := env.TryKubectl(t.Context(), "patch", "tj", name, "-n", namespace, "--type=merge", "-p", `{"spec":{"suspend":true,"runtimePatches":[{"manager":"a.example/b"}]}}`)
		if err == nil || !strings.Contains(out, "trainjob.trainer.kubeflow.org") || !strings.Contains(out, "failed calling webhook") {
			t.Errorf("a change of spec: %v: %s, want it refused, naming the webhook", err, out)
		}
		env.DeleteJob(t, namespace, name)
		env.PatchJob(t, namespace, name, `{"metadata":{"finalizers":null}}`)
		env.AwaitGone(t, namespace, name)
	}
	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace)
	if _, err := runtimes.Patch(t.Context(), harness.RuntimeName, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a label on a runtime: %v", err)
	}
	if err := runtimes.Delete(t.Context(), harness.RuntimeName, metav1.DeleteOptions{}); err != nil {
		t.Errorf("the deletion of a runtime: %v", err)
	}
}

func TestANamespaceGoesWhileNobodyAnswers(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding())
	for _, name := range []string{"runs", "runs-too"} {
		env.NewJob(t, namespace, name)
	}
	env.NewJob(t, namespace, "queued", builders.Suspended(true))
	env.NewJob(t, namespace, "held-back")
	for _, name := range []string{"runs", "runs-too", "held-back"} {
		env.AwaitState(t, namespace, name, trainer.TrainJobRunning, "", harness.Soon)
	}
	env.PatchJob(t, namespace, "held-back", harness.Suspend)
	for _, name := range []string{"queued", "held-back"} {
		env.AwaitState(t, namespace, name, trainer.TrainJobSuspended, "", harness.Soon)
	}
	// One that is being deleted already, in the foreground, and waits for a finalizer.
	env.PatchJob(t, namespace, "runs-too", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	foreground := metav1.DeletePropagationForeground
	if err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Delete(t.Context(), "runs-too", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	withoutServer(t)
	// The first is that finalizer, whether or not the garbage collector has taken its own off.
	release := []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`)
	if _, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), "runs-too", types.JSONPatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	env.DeleteNamespace(t, namespace)
}

// The runtime of a job may be edited, broken or deleted: the webhook goes by the job's
// snapshot.
func TestJobsAreNotLockedByTheirRuntime(t *testing.T) {
	upsets := map[string]string{
		"edited": `[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/name","value":"worker"}]`,
		"gone":   "",
	}
	for name, patch := range upsets {
		t.Run("runtime "+name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, holding())
			runs, queued := env.NewJob(t, namespace, "runs"), env.NewJob(t, namespace, "queued", builders.Suspended(true))
			env.AwaitSnapshot(t, runs)
			env.AwaitSnapshot(t, queued)
			env.AwaitState(t, namespace, "runs", trainer.TrainJobRunning, "", harness.Soon)
			runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace)
			var err error
			if patch == "" {
				err = runtimes.Delete(t.Context(), harness.RuntimeName, metav1.DeleteOptions{})
			} else {
				_, err = runtimes.Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}

			env.PatchJob(t, namespace, "runs", harness.Suspend)
			env.AwaitState(t, namespace, "runs", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
			update(t, namespace, "runs", func(job *trainer.TrainJob) { // a patch of what the snapshot has
				job.Spec.RuntimePatches = []trainer.RuntimePatch{placed("one", "x")}
			})
			update(t, namespace, "runs", func(job *trainer.TrainJob) { job.Spec.RuntimePatches = nil })
			env.PatchJob(t, namespace, "runs", harness.Resume)
			env.AwaitState(t, namespace, "runs", trainer.TrainJobRunning, "", harness.Soon)
			env.PatchJob(t, namespace, "queued", harness.Resume)
			env.AwaitJobSet(t, queued, false)
			for _, name := range []string{"runs", "queued"} {
				env.PatchJob(t, namespace, name, `{"metadata":{"labels":{"team":"vision"},"finalizers":["example.com/hold"]}}`)
				env.DeleteJob(t, namespace, name)
				env.PatchJob(t, namespace, name, `{"metadata":{"finalizers":null}}`)
				env.AwaitGone(t, namespace, name)
			}
			env.DeleteNamespace(t, namespace)
		})
	}
}
