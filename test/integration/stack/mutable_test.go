package stack

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// The job starts, is paused, its runtime is edited and then deleted, and the job goes on:
// with the pods that the runtime as it was described.
func TestARuntimeEditedWhileAJobIsPausedDoesNotReachItsPods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	runtime := env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	job := env.NewJob(t, namespace, "a")
	image := awaitPods(t, namespace, "a", 2)[0].Spec.Containers[0].Image
	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitJobSet(t, job, true)
	awaitPods(t, namespace, "a", 0)

	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace)
	edit := []byte(`[{"op":"replace","path":"/spec/mlPolicy/numNodes","value":1},
		{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image","value":"another:test"}]`)
	edited, err := runtimes.Patch(t.Context(), runtime.Name, types.JSONPatchType, edit, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(edited.Finalizers) > 0 {
		t.Errorf("a runtime in use has finalizers %v", edited.Finalizers)
	}
	if err := runtimes.Delete(t.Context(), runtime.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.PatchJob(t, namespace, "a", harness.Resume)
	for _, pod := range awaitPods(t, namespace, "a", 2) {
		if got := pod.Spec.Containers[0].Image; got != image {
			t.Errorf("pod %s has the image %s, want that of the start, %s", pod.Name, got, image)
		}
	}
}
