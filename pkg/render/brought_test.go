package render

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// frameworks are the policies under which a job of torchRuntime's template can run,
// the variable that says where the nodes meet, and the one that counts.
var frameworks = map[string]struct {
	policy         v1alpha1.MLPolicySource
	meeting, count string
}{
	"torch":   {v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{}}, "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)", "PET_NNODES"},
	"jax":     {v1alpha1.MLPolicySource{JAX: &v1alpha1.JAXMLPolicySource{}}, "$(JAX_COORDINATOR_ADDRESS)", "JAX_NUM_PROCESSES"},
	"xgboost": {v1alpha1.MLPolicySource{XGBoost: &v1alpha1.XGBoostMLPolicySource{}}, "$(DMLC_TRACKER_URI):$(DMLC_TRACKER_PORT)", "DMLC_NUM_WORKER"},
}

// frameworkRuntime is torchRuntime with another framework.
func frameworkRuntime(policy v1alpha1.MLPolicySource, change ...func(*v1alpha1.TrainingRuntimeSpec)) Runtime {
	set := func(spec *v1alpha1.TrainingRuntimeSpec) { spec.MLPolicy.MLPolicySource = policy }
	return torchRuntime(append([]func(*v1alpha1.TrainingRuntimeSpec){set}, change...)...)
}

func mainContainerOf(t *testing.T, objects *Objects) *corev1.Container {
	t.Helper()
	return findContainer(trainerPod(t, objects), v1alpha1.ContainerNode)
}

func valueOf(container *corev1.Container, name string) string {
	for _, env := range container.Env {
		if env.Name == name {
			return env.Value
		}
	}
	return "not set"
}

// everySource is one variable for every kind of source the API has, filled at random.
func everySource(t *testing.T, prefix string) []corev1.EnvVar {
	t.Helper()
	filler := randfill.NewWithSeed(1).NilChance(0)
	kinds := reflect.TypeFor[corev1.EnvVarSource]()
	var env []corev1.EnvVar
	for i := range kinds.NumField() {
		source := &corev1.EnvVarSource{}
		field := reflect.ValueOf(source).Elem().Field(i)
		if field.Kind() != reflect.Pointer {
			t.Fatalf("%s is no pointer: this test must learn about it", kinds.Field(i).Name)
		}
		field.Set(reflect.New(field.Type().Elem()))
		filler.Fill(field.Interface())
		env = append(env, corev1.EnvVar{Name: prefix + kinds.Field(i).Name, ValueFrom: source})
	}
	return env
}

func TestEveryKindOfVariableSourceSurvives(t *testing.T) {
	for name, fw := range frameworks {
		t.Run(name, func(t *testing.T) {
			fromRuntime, fromPatch, fromJob := everySource(t, "RUNTIME_"), everySource(t, "PATCH_"), everySource(t, "JOB_")
			runtime := frameworkRuntime(fw.policy, func(spec *v1alpha1.TrainingRuntimeSpec) { node(spec).Env = fromRuntime })
			job := trainJob(withTrainer(v1alpha1.Trainer{Env: fromJob}),
				withPodSpecPatch(v1alpha1.PodSpecPatch{Containers: []v1alpha1.ContainerPatch{{Name: "node", Env: fromPatch}}}))
			got := mainContainerOf(t, mustRender(t, job, runtime)).Env
			want := slices.Concat(fromRuntime, fromPatch, fromJob)
			if diff := cmp.Diff(want, got[len(got)-len(want):]); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheUserBringsIsKept(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	volumes := []corev1.Volume{{Name: "data"}, {Name: "scratch"}}
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: "/b", SubPath: "x"}, {Name: "data", MountPath: "/a"}, {Name: "scratch", MountPath: "/c"}}
	ports := []corev1.ContainerPort{{Name: "metrics", ContainerPort: 29500, Protocol: corev1.ProtocolUDP}, {Name: "http", ContainerPort: 80, HostPort: 80}}
	inits := []corev1.Container{{Name: "z"}, {Name: "sidecar", RestartPolicy: &always}, {Name: "a"}}
	for name, fw := range frameworks {
		t.Run(name, func(t *testing.T) {
			runtime := frameworkRuntime(fw.policy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				trainer := *node(spec)
				trainer.VolumeMounts, trainer.Ports = mounts, ports
				pod := podOf(&spec.Template.Spec.ReplicatedJobs[0])
				pod.Volumes, pod.InitContainers = volumes, inits
				pod.Containers = []corev1.Container{{Name: "proxy", Image: "proxy"}, trainer}
			})
			got := trainerPod(t, mustRender(t, trainJob(), runtime))
			want := []any{volumes, inits, corev1.Container{Name: "proxy", Image: "proxy"}, mounts,
				append(slices.Clone(ports), corev1.ContainerPort{ContainerPort: 29500, Protocol: corev1.ProtocolTCP})}
			have := []any{got.Volumes, got.InitContainers, got.Containers[0], got.Containers[1].VolumeMounts, got.Containers[1].Ports}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("volumes, init containers, first container, mounts and ports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplatesWithoutLabels(t *testing.T) {
	evaluator := replicatedJob("evaluator", "", "main")
	evaluator.Template.Labels = nil
	for name, fw := range frameworks {
		t.Run(name, func(t *testing.T) {
			runtime := frameworkRuntime(fw.policy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, evaluator)
			})
			patch := v1alpha1.PodTemplatePatch{}
			patch.Metadata = ptr.To(runtime.Spec.Template.ObjectMeta)
			patch.Metadata.Labels = map[string]string{"a": "b"}
			got := mustRender(t, trainJob(withPodPatch("evaluator", patch)), runtime).JobSet.Spec.ReplicatedJobs[1]
			want := evaluator.DeepCopy()
			want.Template.Spec.Template.Labels = map[string]string{"a": "b"}
			if diff := cmp.Diff(*want, got); diff != "" {
				t.Errorf("the job without labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheUsersVariablesMayReferToInjectedOnes(t *testing.T) {
	for name, fw := range frameworks {
		t.Run(name, func(t *testing.T) {
			runtime := frameworkRuntime(fw.policy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				node(spec).Env = []corev1.EnvVar{{Name: "FROM_RUNTIME", Value: fw.meeting}, {Name: fw.count, Value: "100"}}
			})
			job := trainJob(withTrainer(v1alpha1.Trainer{Env: []corev1.EnvVar{{Name: "RDZV", Value: fw.meeting}, {Name: fw.count, Value: "200"}}}))
			container := mainContainerOf(t, mustRender(t, job, runtime))
			if diff := cmp.Diff("2", valueOf(container, fw.count)); diff != "" {
				t.Errorf("%s is not the framework's (-want +got):\n%s", fw.count, diff)
			}
			defined := map[string]bool{}
			for _, env := range container.Env {
				for _, part := range strings.Split(env.Value, "$(")[1:] {
					if reference, _, _ := strings.Cut(part, ")"); !defined[reference] {
						t.Errorf("%s refers to %s, which does not stand before it", env.Name, reference)
					}
				}
				if defined[env.Name] {
					t.Errorf("%s is there twice", env.Name)
				}
				defined[env.Name] = true
			}
			if diff := cmp.Diff([]string{fw.meeting, fw.meeting}, []string{valueOf(container, "FROM_RUNTIME"), valueOf(container, "RDZV")}); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoNodesAndThousandsOfNodes(t *testing.T) {
	for name, fw := range frameworks {
		for _, nodes := range []int32{0, 1, 5000} {
			t.Run(fmt.Sprintf("%s on %d", name, nodes), func(t *testing.T) {
				objects := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{NumNodes: ptr.To(nodes)})), frameworkRuntime(fw.policy))
				job := objects.JobSet.Spec.ReplicatedJobs[0].Template.Spec
				want := []string{fmt.Sprint(nodes), fmt.Sprint(nodes), fmt.Sprint(nodes)}
				got := []string{fmt.Sprint(*job.Parallelism), fmt.Sprint(*job.Completions), valueOf(mainContainerOf(t, objects), fw.count)}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("parallelism, completions and %s (-want +got):\n%s", fw.count, diff)
				}
			})
		}
	}
}

func TestATrainerWithoutFieldsIsTheSameAsNoneUnderEveryFramework(t *testing.T) {
	for name, fw := range frameworks {
		t.Run(name, func(t *testing.T) {
			without := mustRender(t, trainJob(), frameworkRuntime(fw.policy))
			empty := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{})), frameworkRuntime(fw.policy))
			if diff := cmp.Diff(without, empty); diff != "" {
				t.Errorf("without trainer and with an empty one (-without +empty):\n%s", diff)
			}
		})
	}
}

func TestGPUsAreCountedAfterResourcesAreMerged(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	cases := map[string]struct {
		runtime, job       corev1.ResourceList
		processes, workers string // under torch, under xgboost
	}{
		"a job that only raises memory keeps the GPUs":    {list("nvidia.com/gpu", "4"), list("memory", "64Gi"), "auto", "8"},
		"a job changes their number":                      {list("nvidia.com/gpu", "4"), list("nvidia.com/gpu", "1"), "auto", "2"},
		"a job adds GPUs":                                 {list("cpu", "8"), list("nvidia.com/gpu", "2"), "auto", "4"},
		"a job takes them away":                           {list("nvidia.com/gpu", "4", "cpu", "6"), list("nvidia.com/gpu", "0"), "6", "2"},
		"memory of a GPU is no GPU":                       {nil, list("nvidia.com/gpu", "1", "nvidia.com/gpumem", "8192"), "auto", "2"},
		"and alone it makes none":                         {nil, list("nvidia.com/gpumem", "8192"), "1", "2"},
		"of two makers they add up":                       {list("nvidia.com/gpu", "1"), list("amd.com/gpu", "1"), "auto", "4"},
		"a job that asks for CPUs keeps the GPUs as well": {list("nvidia.com/gpu", "4"), list("cpu", "2"), "auto", "8"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for framework, variable := range map[string]string{"torch": "PET_NPROC_PER_NODE", "xgboost": "DMLC_NUM_WORKER"} {
				runtime := frameworkRuntime(frameworks[framework].policy, func(spec *v1alpha1.TrainingRuntimeSpec) {
					node(spec).Resources.Limits = tc.runtime
				})
				job := trainJob(withTrainer(v1alpha1.Trainer{ResourcesPerNode: &corev1.ResourceRequirements{Limits: tc.job}}))
				got[framework] = valueOf(mainContainerOf(t, mustRender(t, job, runtime)), variable)
			}
			if diff := cmp.Diff(map[string]string{"torch": tc.processes, "xgboost": tc.workers}, got); diff != "" {
				t.Errorf("processes and workers (-want +got):\n%s", diff)
			}
		})
	}
}
