package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func jaxInput(change ...func(*Input)) Input {
	policy := &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{JAX: &v1alpha1.JAXMLPolicySource{}}}
	return input(append([]func(*Input){withPolicy(policy)}, change...)...)
}

func xgboostInput(change ...func(*Input)) Input {
	policy := &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{XGBoost: &v1alpha1.XGBoostMLPolicySource{}}}
	return input(append([]func(*Input){withPolicy(policy)}, change...)...)
}

// meeting is the output of a framework that adds variables and the port and no more.
func meeting(env ...corev1.EnvVar) Output {
	return Output{DNSHostnames: true, Containers: []Addition{{
		ReplicatedJob: "node", Container: "node", Env: env,
		Ports: []corev1.ContainerPort{{ContainerPort: 29500, Protocol: corev1.ProtocolTCP}},
	}}}
}

func indexEnv(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
}

func withNodes(n int32) func(*Input) { return func(in *Input) { in.Nodes = n } }

func withGPUs(n string) func(*Input) {
	return func(in *Input) {
		in.Node.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
	}
}

func withTrainer(trainer v1alpha1.Trainer) func(*Input) {
	return func(in *Input) { in.Trainer = &trainer }
}

func withSubdomain(in *Input) { in.Spec.Network = &jobsetv1alpha2.Network{Subdomain: "net"} }

func TestJAXConfiguresTheTrainingContainer(t *testing.T) {
	env := func(processes, address string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: "JAX_NUM_PROCESSES", Value: processes}, indexEnv("JAX_PROCESS_ID"), {Name: "JAX_COORDINATOR_ADDRESS", Value: address},
		}
	}
	cases := map[string]struct {
		in   Input
		want []corev1.EnvVar
	}{
		"from nothing but the template":       {jaxInput(), env("2", "bert-node-0-0.bert:29500")},
		"with a subdomain of the template":    {jaxInput(withSubdomain), env("2", "bert-node-0-0.net:29500")},
		"with no nodes at all":                {jaxInput(withNodes(0)), env("0", "bert-node-0-0.bert:29500")},
		"one process a node, however many":    {jaxInput(withNodes(5000), withGPUs("8")), env("5000", "bert-node-0-0.bert:29500")},
		"one process a node, whatever is set": {jaxInput(withTrainer(v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](4)})), env("2", "bert-node-0-0.bert:29500")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := Build(tc.in)
			if diff := cmp.Diff(meeting(tc.want...), got); diff != "" || len(errs) > 0 {
				t.Errorf("errors %v, output (-want +got):\n%s", errs, diff)
			}
		})
	}
}

func TestXGBoostConfiguresTheTrainingContainer(t *testing.T) {
	env := func(workers, address string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: "DMLC_TRACKER_URI", Value: address}, {Name: "DMLC_TRACKER_PORT", Value: "29500"},
			indexEnv("DMLC_TASK_ID"), {Name: "DMLC_NUM_WORKER", Value: workers},
		}
	}
	shares := func(in *Input) { in.Node.Resources.Limits["nvidia.com/gpumem"] = resource.MustParse("8192") }
	cases := map[string]struct {
		in   Input
		want []corev1.EnvVar
	}{
		"one worker a node without GPUs":       {xgboostInput(), env("2", "bert-node-0-0.bert")},
		"one worker a GPU":                     {xgboostInput(withGPUs("4")), env("8", "bert-node-0-0.bert")},
		"shares of a GPU are no GPUs":          {xgboostInput(withGPUs("1"), shares), env("2", "bert-node-0-0.bert")},
		"with a subdomain of the template":     {xgboostInput(withSubdomain), env("2", "bert-node-0-0.net")},
		"with no nodes at all":                 {xgboostInput(withNodes(0), withGPUs("4")), env("0", "bert-node-0-0.bert")},
		"more workers than 32 bits can count":  {xgboostInput(withNodes(2147483647), withGPUs("8")), env("17179869176", "bert-node-0-0.bert")},
		"numProcPerNode says nothing about it": {xgboostInput(withTrainer(v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](4)})), env("2", "bert-node-0-0.bert")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := Build(tc.in)
			if diff := cmp.Diff(meeting(tc.want...), got); diff != "" || len(errs) > 0 {
				t.Errorf("errors %v, output (-want +got):\n%s", errs, diff)
			}
		})
	}
}

func TestNodesThatCannotMeetAreRefusedByEveryFramework(t *testing.T) {
	policies := map[string]func(...func(*Input)) Input{"torch": input, "jax": jaxInput, "xgboost": xgboostInput}
	cases := map[string]struct {
		change func(*Input)
		want   string
	}{
		"without host names": {func(in *Input) { in.Spec.Network = &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)} },
			"spec.template.spec.network.enableDNSHostnames"},
		"without an index": {func(in *Input) { in.TrainerJob.Template.Spec.CompletionMode = ptr.To(batchv1.NonIndexedCompletion) },
			"spec.template.spec.replicatedJobs[node].template.spec.completionMode"},
	}
	for policy, makeInput := range policies {
		for name, tc := range cases {
			t.Run(policy+" "+name, func(t *testing.T) {
				out, errs := Build(makeInput(tc.change))
				if diff := cmp.Diff(Output{}, out); diff != "" {
					t.Errorf("output besides the error (-want +got):\n%s", diff)
				}
				if len(errs) != 1 || errs[0].Field != tc.want {
					t.Errorf("errors %v, want one about %s", errs, tc.want)
				}
			})
		}
	}
}
