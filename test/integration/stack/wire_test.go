package stack

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
