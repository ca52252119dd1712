package stack

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// The SDK sends quantities as numbers. What a client with Go types would write in another
// way goes over the wire as it is written here.
func TestNumbersAndTheTimeToEndReachThePods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	const job = `{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"},
		"spec": {
			"runtimeRef": {"kind": "TrainingRuntime", "name": "` + harness.RuntimeName + `"},
			"trainer": {"resourcesPerNode": {"limits": {"cpu": 2.0, "memory": "1Gi"}}},
			"runtimePatches": [{"manager": "example.com/me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
				{"name": "node", "template": {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 600}}}}}
			]}}}}]
		}
	}`
	err := env.Trainer.TrainerV1alpha1().RESTClient().Post().Namespace(namespace).Resource("trainjobs").
		SetHeader("Content-Type", "application/json").Body([]byte(job)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range env.AwaitPods(t, namespace, "a", 2) {
		if cpu := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse("2")) != 0 {
			t.Errorf("pod %s has %s CPUs, want 2", pod.Name, cpu.String())
		}
		if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds == nil || *seconds != 600 {
			t.Errorf("pod %s has %v seconds to end, want 600", pod.Name, seconds)
		}
	}
}

// Trainer runs runtimes that do not say which job trains: their template is used as it
// stands.
func TestARuntimeThatSaysNotWhichJobTrainsRunsAsItStands(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := holding(builders.TorchSpec())
	node := &spec.Template.Spec.ReplicatedJobs[0]
	node.Template.Labels = nil
	node.Template.Spec.Parallelism, node.Template.Spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
	env.NewRuntime(t, namespace, spec)
	env.NewJob(t, namespace, "a")
	for _, pod := range env.AwaitPods(t, namespace, "a", 2) {
		for _, v := range pod.Spec.Containers[0].Env {
			if strings.HasPrefix(v.Name, "PET_") {
				t.Errorf("pod %s has %s, which nobody asked for", pod.Name, v.Name)
			}
		}
	}
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	env.PatchJob(t, namespace, "a", `{"spec":{"suspend":true}}`)
	env.AwaitPods(t, namespace, "a", 0)
	env.PatchJob(t, namespace, "a", `{"spec":{"suspend":false}}`)
	env.AwaitPods(t, namespace, "a", 2)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)

	env.NewJob(t, namespace, "b", builders.Trainer(trainer.Trainer{Image: ptr.To("trainer:2")}))
	refused := env.AwaitState(t, namespace, "b", trainer.TrainJobPending, trainer.ReasonRuntimeInvalid, harness.Soon)
	if !strings.Contains(refused.Status.Message, "trainer.kubeflow.org/trainjob-ancestor-step") {
		t.Errorf("the message does not name the label: %s", refused.Status.Message)
	}
}
