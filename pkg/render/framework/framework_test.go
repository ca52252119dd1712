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

// input is a torch job with two nodes. The job `eval` stands beside the trainer.
func input(change ...func(*Input)) Input {
	job := func(name string, containers ...string) jobsetv1alpha2.ReplicatedJob {
		rjob := jobsetv1alpha2.ReplicatedJob{Name: name}
		pod := &rjob.Template.Spec.Template.Spec
		pod.InitContainers = []corev1.Container{{Name: "wait"}, {Name: "agent", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		for _, container := range containers {
			pod.Containers = append(pod.Containers, corev1.Container{Name: container})
		}
		return rjob
	}
	spec := &jobsetv1alpha2.JobSetSpec{ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{job("eval", "main"), job("node", "node", "proxy")}}
	in := Input{
		JobName:    "bert",
		Policy:     &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{}}},
		Spec:       spec,
		TrainerJob: &spec.ReplicatedJobs[1],
		Node:       &spec.ReplicatedJobs[1].Template.Spec.Template.Spec.Containers[0],
		Nodes:      2,
	}
	for _, f := range change {
		f(&in)
	}
	return in
}

func withPolicy(policy *v1alpha1.MLPolicy) func(*Input) {
	return func(in *Input) { in.Policy = policy }
}

func withTargets(targets ...v1alpha1.EnvInjectionTarget) func(*Input) {
	return func(in *Input) { in.Policy.Torch.EnvInjection = &v1alpha1.EnvInjection{Targets: targets} }
}

func petEnv(processes, host string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "PET_NNODES", Value: "2"},
		{Name: "PET_NPROC_PER_NODE", Value: processes},
		{Name: "PET_NODE_RANK", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
		{Name: "PET_MASTER_ADDR", Value: host},
		{Name: "PET_MASTER_PORT", Value: "29500"},
	}
}

func TestTorchConfiguresTheTrainingContainer(t *testing.T) {
	cases := map[string]struct {
		in              Input
		processes, host string
	}{
		"from nothing but the template": {input(), "1", "bert-node-0-0.bert"},
		"with a subdomain of the template": {input(func(in *Input) {
			in.Spec.Network = &jobsetv1alpha2.Network{Subdomain: "net"}
		}), "1", "bert-node-0-0.net"},
		"with the user's number of processes, GPUs or not": {input(func(in *Input) {
			in.Trainer = &v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](3)}
			in.Node.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		}), "3", "bert-node-0-0.bert"},
		"with GPUs": {input(func(in *Input) {
			in.Trainer = &v1alpha1.Trainer{}
			in.Node.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "cpu": resource.MustParse("8")}
		}), "auto", "bert-node-0-0.bert"},
		"with CPUs only": {input(func(in *Input) {
			in.Node.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("8")}
		}), "8", "bert-node-0-0.bert"},
		"with a CPU request below the limit": {input(func(in *Input) {
			in.Node.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("2")}
			in.Node.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("6")}
		}), "2", "bert-node-0-0.bert"},
		"with CPUs of the pod as a whole": {input(func(in *Input) {
			in.TrainerJob.Template.Spec.Template.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("12")}}
		}), "12", "bert-node-0-0.bert"},
		"with devices of a resource claim": {input(func(in *Input) {
			in.TrainerJob.Template.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("eight")}}
			in.Node.Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
			in.Node.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("64")}
		}), "auto", "bert-node-0-0.bert"},
		"with an explicitly indexed job": {input(func(in *Input) {
			in.TrainerJob.Template.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		}), "1", "bert-node-0-0.bert"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			want := Output{DNSHostnames: true, Containers: []Addition{{
				ReplicatedJob: "node", Container: "node", Env: petEnv(tc.processes, tc.host),
				Ports: []corev1.ContainerPort{{ContainerPort: 29500, Protocol: corev1.ProtocolTCP}},
			}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvInjection(t *testing.T) {
	type target = v1alpha1.EnvInjectionTarget
	cases := map[string]struct {
		targets []target
		want    []string // what gets the variables besides the training container
		errs    []string
	}{
		"an init container and a native sidecar":   {[]target{{JobName: "node", ContainerNames: []string{"agent", "wait"}}}, []string{"node/agent", "node/wait"}, nil},
		"a container beside the training one":      {[]target{{JobName: "node", ContainerNames: []string{"proxy"}}}, []string{"node/proxy"}, nil},
		"containers of another job":                {[]target{{JobName: "eval", ContainerNames: []string{"main", "wait"}}}, []string{"eval/main", "eval/wait"}, nil},
		"the same container twice gets them once":  {[]target{{JobName: "node", ContainerNames: []string{"wait", "wait"}}, {JobName: "node", ContainerNames: []string{"wait"}}}, []string{"node/wait"}, nil},
		"the training container has them anyway":   {[]target{{JobName: "node", ContainerNames: []string{"node"}}}, nil, nil},
		"an empty list of targets adds nothing":    {nil, nil, nil},
		"a job that does not exist":                {[]target{{JobName: "x", ContainerNames: []string{"wait"}}}, nil, []string{`spec.mlPolicy.torch.envInjection.targets[0].jobName: Not found: "x": name a replicatedJob of the template (eval, node) or remove the target`}},
		"a container that does not exist":          {[]target{{JobName: "node", ContainerNames: []string{"wait", "x"}}}, []string{"node/wait"}, []string{`spec.mlPolicy.torch.envInjection.targets[0].containerNames[1]: Not found: "x": name a container or init container of replicatedJob node (wait, agent, node, proxy) or remove it from the target`}},
		"a training container of no training step": {[]target{{JobName: "eval", ContainerNames: []string{"node"}}}, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(input(withTargets(tc.targets...)))
			var got, messages []string
			for _, addition := range out.Containers[1:] {
				got = append(got, addition.ReplicatedJob+"/"+addition.Container)
				if diff := cmp.Diff(petEnv("1", "bert-node-0-0.bert"), addition.Env); diff != "" {
					t.Errorf("env (-want +got):\n%s", diff)
				}
				if len(addition.Ports) > 0 {
					t.Errorf("%s gets the port of the training container", addition.Container)
				}
				if addition.Env[2].ValueFrom == out.Containers[0].Env[2].ValueFrom {
					t.Error("two containers share one value")
				}
			}
			for _, err := range errs {
				messages = append(messages, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.errs, messages); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoliciesThatAddNothing(t *testing.T) {
	for name, policy := range map[string]*v1alpha1.MLPolicy{
		"none":               nil,
		"without framework":  {},
		"only a node number": {NumNodes: ptr.To[int32](3)},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := Build(input(withPolicy(policy)))
			if diff := cmp.Diff(Output{}, got); diff != "" || len(errs) > 0 {
				t.Errorf("errors %v, output (-want +got):\n%s", errs, diff)
			}
		})
	}
}

func TestWhatCannotBeBuilt(t *testing.T) {
	policy := func(source v1alpha1.MLPolicySource) Input {
		return input(withPolicy(&v1alpha1.MLPolicy{MLPolicySource: source}))
	}
	cases := map[string]struct {
		in   Input
		want string
	}{
		"two frameworks": {policy(v1alpha1.MLPolicySource{Flux: &v1alpha1.FluxMLPolicySource{}, Torch: &v1alpha1.TorchMLPolicySource{}}),
			`spec.mlPolicy: Invalid value: "torch, flux": a runtime serves one framework: keep one of these fields and remove the others`},
		"nodes without host names": {input(func(in *Input) { in.Spec.Network = &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)} }),
			`spec.template.spec.network.enableDNSHostnames: Invalid value: false: 2 training nodes find each other by host name: set true or leave the field out`},
		"nodes without a rank": {input(func(in *Input) { in.TrainerJob.Template.Spec.CompletionMode = ptr.To(batchv1.NonIndexedCompletion) }),
			`spec.template.spec.replicatedJobs[node].template.spec.completionMode: Invalid value: "NonIndexed": the training nodes take their rank from the completion index: set Indexed or leave the field out`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(tc.in)
			if len(errs) != 1 {
				t.Fatalf("errors: %v", errs)
			}
			if diff := cmp.Diff(tc.want, errs[0].Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourcesOfANode(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	type req = corev1.ResourceRequirements
	cases := map[string]struct {
		resources  req
		gpus, cpus int64
	}{
		"none":                                 {req{}, 0, 1},
		"GPUs as limit":                        {req{Limits: list("nvidia.com/gpu", "4")}, 4, 1},
		"GPUs as request":                      {req{Requests: list("nvidia.com/gpu", "4")}, 4, 1},
		"both count once":                      {req{Limits: list("nvidia.com/gpu", "4"), Requests: list("nvidia.com/gpu", "4")}, 4, 1},
		"of two makers":                        {req{Limits: list("nvidia.com/gpu", "4", "amd.com/gpu", "2")}, 6, 1},
		"shared GPUs":                          {req{Limits: list("nvidia.com/gpu.shared", "3")}, 3, 1},
		"partitions":                           {req{Limits: list("nvidia.com/mig-1g.5gb", "2", "nvidia.com/mig-3g.20gb", "1")}, 3, 1},
		"shares of a GPU are no GPUs":          {req{Limits: list("nvidia.com/gpu", "1", "nvidia.com/gpumem", "8192", "nvidia.com/gpucores", "50")}, 1, 1},
		"a name without domain is no GPU":      {req{Limits: list("gpu", "1", "/gpu", "1")}, 0, 1},
		"zero GPUs are none":                   {req{Limits: list("nvidia.com/gpu", "0")}, 0, 1},
		"CPUs as limit":                        {req{Limits: list("cpu", "8")}, 0, 8},
		"CPUs requested come before the limit": {req{Limits: list("cpu", "8"), Requests: list("cpu", "2")}, 0, 2},
		"Intel's, by driver":                   {req{Limits: list("gpu.intel.com/i915", "2", "gpu.intel.com/xe", "1")}, 3, 1},
		"Intel's shares are no GPUs":           {req{Limits: list("gpu.intel.com/tiles", "2", "gpu.intel.com/millicores", "500", "gpu.intel.com/i915_monitoring", "1", "gpu.intel.com/memory.max", "8")}, 0, 1},
		"a driver's name elsewhere is no GPU":  {req{Limits: list("example.com/i915", "2")}, 0, 1},
		"of cloud plugins":                     {req{Limits: list("aliyun.com/gpu-count", "2", "volcano.sh/vgpu-number", "1", "volcano.sh/gpu-number", "1", "mthreads.com/vgpu", "1")}, 5, 1},
		"shares of cloud plugins":              {req{Limits: list("aliyun.com/gpu-mem", "16", "aliyun.com/gpu-core.percentage", "50", "volcano.sh/vgpu-memory", "8192", "volcano.sh/vgpu-cores", "50", "tencent.com/vcuda-core", "50")}, 0, 1},
		"AMD's partitions":                     {req{Limits: list("amd.com/cpx_nps4", "8", "amd.com/spx_nps1", "1")}, 9, 1},
		"CPUs as request":                      {req{Requests: list("cpu", "2")}, 0, 2},
		"part of a CPU counts":                 {req{Limits: list("cpu", "2500m")}, 0, 3},
		"at least one":                         {req{Limits: list("cpu", "0")}, 0, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([]int64{tc.gpus, tc.cpus}, []int64{GPUs(&tc.resources), CPUs(&tc.resources, nil)}); diff != "" {
				t.Errorf("GPUs, CPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCPUsOfThePodCountWhereTheContainerSaysNothing(t *testing.T) {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	pod := &corev1.ResourceRequirements{Requests: list("4"), Limits: list("16")}
	for name, tc := range map[string]struct {
		container, pod *corev1.ResourceRequirements
		want           int64
	}{
		"the pod's request":       {&corev1.ResourceRequirements{}, pod, 4},
		"the pod's limit":         {&corev1.ResourceRequirements{}, &corev1.ResourceRequirements{Limits: list("16")}, 16},
		"the container's request": {&corev1.ResourceRequirements{Requests: list("2")}, pod, 2},
		"the container's limit":   {&corev1.ResourceRequirements{Limits: list("3")}, pod, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CPUs(tc.container, tc.pod); got != tc.want {
				t.Errorf("CPUs() = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNamesInMessagesAreFewAndNeverMissing(t *testing.T) {
	if diff := cmp.Diff("none", ContainerNames(nil, nil)); diff != "" {
		t.Errorf("no containers (-want +got):\n%s", diff)
	}
	many := &jobsetv1alpha2.JobSetSpec{ReplicatedJobs: make([]jobsetv1alpha2.ReplicatedJob, 20)}
	for i := range many.ReplicatedJobs {
		many.ReplicatedJobs[i].Name = "j"
	}
	if diff := cmp.Diff("j, j, j, j, j, j, j, j, …", JobNames(many)); diff != "" {
		t.Errorf("many jobs (-want +got):\n%s", diff)
	}
}
