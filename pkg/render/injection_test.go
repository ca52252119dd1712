package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// preflightRuntime has an evaluator beside the trainer, and in each of them an init
// container, a native sidecar and a container beside the main one.
func preflightRuntime(targets ...v1alpha1.EnvInjectionTarget) Runtime {
	return torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		jobs := &spec.Template.Spec.ReplicatedJobs
		*jobs = append(*jobs, replicatedJob("evaluator", "", "main"))
		for i := range *jobs {
			pod := podOf(&(*jobs)[i])
			pod.InitContainers = []corev1.Container{
				{Name: "z-check", Env: []corev1.EnvVar{{Name: "PET_NNODES", Value: "7"}, {Name: "WAIT", Value: "$(PET_MASTER_ADDR)"}, {Name: "PET_NNODES", Value: "8"}}},
				{Name: "agent", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
				{Name: "a-check"},
			}
			pod.Containers = append(pod.Containers, corev1.Container{Name: "proxy"})
		}
		if len(targets) > 0 {
			spec.MLPolicy.Torch.EnvInjection = &v1alpha1.EnvInjection{Targets: targets}
		}
	})
}

var petNames = []string{"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}

// petOf lists the injected variables of every container, by job/container.
func petOf(objects *Objects) map[string][]string {
	found := map[string][]string{}
	for i := range objects.JobSet.Spec.ReplicatedJobs {
		rjob := &objects.JobSet.Spec.ReplicatedJobs[i]
		for _, container := range allContainers(podOf(rjob)) {
			for _, env := range container.Env {
				if env.Name != "WAIT" {
					found[rjob.Name+"/"+container.Name] = append(found[rjob.Name+"/"+container.Name], env.Name)
				}
			}
		}
	}
	return found
}

func TestVariablesReachTheTargetsAndNoOthers(t *testing.T) {
	type target = v1alpha1.EnvInjectionTarget
	untouched := []string{"PET_NNODES", "PET_NNODES"} // what z-check has of its own
	cases := map[string]struct {
		targets []target
		job     *v1alpha1.TrainJob
		want    map[string][]string
	}{
		"no targets": {nil, trainJob(), map[string][]string{
			"node/node": petNames, "node/z-check": untouched, "evaluator/z-check": untouched}},
		"init containers and a native sidecar": {[]target{{JobName: "node", ContainerNames: []string{"z-check", "agent"}}}, trainJob(), map[string][]string{
			"node/node": petNames, "node/z-check": petNames, "node/agent": petNames, "evaluator/z-check": untouched}},
		"main containers of this job and another": {[]target{{JobName: "node", ContainerNames: []string{"proxy"}}, {JobName: "evaluator", ContainerNames: []string{"main"}}}, trainJob(), map[string][]string{
			"node/node": petNames, "node/proxy": petNames, "evaluator/main": petNames, "node/z-check": untouched, "evaluator/z-check": untouched}},
		"twice the same": {[]target{{JobName: "node", ContainerNames: []string{"a-check", "a-check"}}, {JobName: "node", ContainerNames: []string{"a-check"}}}, trainJob(), map[string][]string{
			"node/node": petNames, "node/a-check": petNames, "node/z-check": untouched, "evaluator/z-check": untouched}},
		"all of them to targets of torchtune": {[]target{{JobName: "node", ContainerNames: []string{"a-check", "node"}}},
			trainJob(withTrainer(v1alpha1.Trainer{Command: []string{"tune", "run"}, NumNodes: ptr.To[int32](1)})), map[string][]string{
				"node/node": petNames[:3], "node/a-check": petNames, "node/z-check": untouched, "evaluator/z-check": untouched}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := preflightRuntime(tc.targets...)
			runtime.Name = "torchtune-llama3.2-1b"
			if diff := cmp.Diff(tc.want, petOf(mustRender(t, tc.job, runtime))); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetsThatDefineTheVariablesGetTheRightValues(t *testing.T) {
	runtime := preflightRuntime(v1alpha1.EnvInjectionTarget{JobName: "node", ContainerNames: []string{"z-check"}})
	pod := trainerPod(t, mustRender(t, trainJob(), runtime))
	check := findContainer(pod, "z-check").Env
	want := append(append([]corev1.EnvVar{}, findContainer(pod, "node").Env...), corev1.EnvVar{Name: "WAIT", Value: "$(PET_MASTER_ADDR)"})
	if diff := cmp.Diff(want, check); diff != "" {
		t.Errorf("variables of the check (-want +got):\n%s", diff)
	}
}

func TestInitContainersKeepTheirOrderWhenPatchedAndInjected(t *testing.T) {
	runtime := preflightRuntime(v1alpha1.EnvInjectionTarget{JobName: "node", ContainerNames: []string{"a-check", "z-check"}})
	job := trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{InitContainers: []v1alpha1.ContainerPatch{
		{Name: "a-check", Env: []corev1.EnvVar{{Name: "PET_NNODES", Value: "9"}, {Name: "MORE", Value: "1"}}}, {Name: "agent"}}}))
	var got []string
	pod := trainerPod(t, mustRender(t, job, runtime))
	for _, container := range pod.InitContainers {
		got = append(got, container.Name)
	}
	if diff := cmp.Diff([]string{"z-check", "agent", "a-check"}, got); diff != "" {
		t.Errorf("init containers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("2", valueOf(findContainer(pod, "a-check"), "PET_NNODES")); diff != "" {
		t.Errorf("a patch overrides an injected variable (-want +got):\n%s", diff)
	}
}

func TestTargetsThatDoNotExistMakeTheRuntimeInvalid(t *testing.T) {
	cases := map[string]v1alpha1.EnvInjectionTarget{
		"targets[0].jobName: Not found: \"gone\"":           {JobName: "gone", ContainerNames: []string{"z-check"}},
		"targets[0].containerNames[1]: Not found: \"gone\"": {JobName: "node", ContainerNames: []string{"z-check", "gone"}},
	}
	for want, target := range cases {
		t.Run(want, func(t *testing.T) {
			objects, err := Render(trainJob(), preflightRuntime(target))
			if objects != nil || err == nil {
				t.Fatalf("objects %v, error %v", objects, err)
			}
			const prefix = "cannot be built from ClusterTrainingRuntime torch: spec.mlPolicy.torch.envInjection."
			if got := err.Error(); len(got) < len(prefix+want) || got[:len(prefix+want)] != prefix+want {
				t.Errorf("error %q does not begin with %q", got, prefix+want)
			}
		})
	}
}
