package stack

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// The pods of the simulated nodes run nothing: what a container sees is what its pod says.
func TestTheInitContainersOfBothNodesSeeTheVariables(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := holding(builders.TorchSpec())
	pod := &spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
	pod.InitContainers = []corev1.Container{{Name: "preflight", Image: "check:test"}, {Name: "other", Image: "check:test"}}
	spec.MLPolicy.Torch.EnvInjection = &trainer.EnvInjection{Targets: []trainer.EnvInjectionTarget{{JobName: "node", ContainerNames: []string{"preflight"}}}}
	env.NewRuntime(t, namespace, spec)
	env.NewJob(t, namespace, "a")
	for _, pod := range awaitPods(t, namespace, "a", 2) {
		preflight, other, node := pod.Spec.InitContainers[0].Env, pod.Spec.InitContainers[1].Env, pod.Spec.Containers[0].Env
		for name, want := range map[string]string{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "", "PET_NODE_RANK": "", "PET_MASTER_ADDR": "a-node-0-0.a", "PET_MASTER_PORT": "29500"} {
			got, main := variable(preflight, name), variable(node, name)
			if got == nil || main == nil || (want != "" && got.Value != want) || got.Value != main.Value {
				t.Errorf("%s of pod %s: %v in the init container, %v in the training container, want %q", name, pod.Name, got, main, want)
			}
			if variable(other, name) != nil {
				t.Errorf("%s is in an init container of pod %s that is no target", name, pod.Name)
			}
		}
		if rank := variable(preflight, "PET_NODE_RANK"); rank != nil && (rank.ValueFrom == nil || rank.ValueFrom.FieldRef == nil) {
			t.Errorf("the rank is not read from the pod: %v", rank)
		}
	}
}

func variable(env []corev1.EnvVar, name string) *corev1.EnvVar {
	for i := range env {
		if env[i].Name == name {
			return &env[i]
		}
	}
	return nil
}
