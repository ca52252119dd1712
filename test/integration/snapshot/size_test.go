package snapshot

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// filled is a runtime whose spec takes about as many bytes as given.
func filled(bytes int) trainer.TrainingRuntimeSpec {
	spec := builders.TorchSpec()
	container := &spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0]
	container.Command = []string{"sh", "-c", strings.Repeat("x", bytes)}
	return spec
}

func TestARuntimeThatFitsIntoNoSnapshotIsWaitedFor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	runtime := env.NewRuntime(t, namespace, filled(1<<20))
	job := env.NewJob(t, namespace, "a")
	pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonSnapshotTooLarge, harness.Soon)
	if message := pending.Status.Message; !strings.Contains(message, `TrainingRuntime "torch" takes`) || !strings.Contains(message, "1048576") {
		t.Errorf("the message names neither the runtime nor the limit: %s", message)
	}
	env.AwaitEvent(t, namespace, "a", "Warning/SnapshotTooLarge")
	if env.SnapshotOf(t, namespace, "a") != nil || env.JobSetOf(t, namespace, "a") != nil {
		t.Error("something was made of a runtime that is too large")
	}
	runtime.Spec = builders.TorchSpec()
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Update(t.Context(), runtime, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.AwaitSnapshot(t, job)
	env.AwaitJobSet(t, job, false)
}

// What tools leave in annotations, and the API server in managedFields, must not keep
// anybody from training.
func TestAnnotationsDoNotMakeARuntimeTooLarge(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	runtime := builders.TrainingRuntime("torch", filled(1<<20-20<<10))
	runtime.Namespace = namespace
	runtime.Labels = map[string]string{"team": "vision"}
	runtime.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 50<<10),
		"example.com/copy": strings.Repeat("y", 100<<10), "example.com/queue": "gpu",
	}
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Create(t.Context(), runtime, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := env.NewJob(t, namespace, "a", builders.Suspended(true))
	var frozen struct{ Metadata metav1.ObjectMeta }
	if err := yaml.Unmarshal([]byte(env.AwaitSnapshot(t, job).Data["runtime"]), &frozen); err != nil {
		t.Fatal(err)
	}
	if len(frozen.Metadata.Annotations) != 1 || frozen.Metadata.Annotations["example.com/queue"] != "gpu" {
		t.Errorf("the snapshot has %d annotations, want the small one alone", len(frozen.Metadata.Annotations))
	}
	if frozen.Metadata.Labels["team"] != "vision" {
		t.Errorf("the snapshot has lost labels: %v", frozen.Metadata.Labels)
	}
}
