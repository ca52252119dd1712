package render

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Whoever compares each item of one list with each of another asks for millions of keys.
func TestListsAreLaidOverEachOtherInLinearTime(t *testing.T) {
	const size = 5000
	base, over := make([]int, size), make([]int, size)
	for i := range size {
		base[i], over[i] = i, i+size/2
	}
	asked := 0
	number := func(i *int) int { asked++; return *i }
	name := func(i *int) string { asked++; return fmt.Sprint(*i) }
	for what, lay := range map[string]func() int{
		"mergeByKey": func() int { return len(mergeByKey(append([]int(nil), base...), over, name, replace[int])) },
		"addNew":     func() int { return len(addNew(append([]int(nil), base...), over, number)) },
		"lacks": func() int {
			if !lacks(base, over, number) || lacks(base, base, number) {
				t.Error("lacks does not say what is lacking")
			}
			return size + size/2
		},
	} {
		asked = 0
		if got := lay(); got != size+size/2 {
			t.Errorf("%s: %d items, want %d", what, got, size+size/2)
		}
		if asked > 8*size {
			t.Errorf("%s of %d items asks for %d keys", what, size, asked)
		}
	}
}

func TestMergeByKeyKeepsTheOrderAndDropsWhatWouldHideAChange(t *testing.T) {
	env := func(pairs ...string) (list []corev1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	for name, tc := range map[string]struct{ base, over, want []corev1.EnvVar }{
		"nothing over nothing":                 {nil, nil, nil},
		"an old name keeps its place":          {env("a", "1", "b", "2"), env("a", "3"), env("a", "3", "b", "2")},
		"a new name comes last":                {env("a", "1"), env("b", "2"), env("a", "1", "b", "2")},
		"a later one of the same name is gone": {env("a", "1", "b", "2", "a", "3"), env("a", "4"), env("a", "4", "b", "2")},
		"twins that nothing touches stay":      {env("a", "1", "a", "2", "b", "3"), env("b", "4"), env("a", "1", "a", "2", "b", "4")},
		"the last one of a name that is new":   {nil, env("a", "1", "a", "2"), env("a", "2")},
		"the last one of a name that is known": {env("a", "0", "b", "1"), env("a", "1", "a", "2"), env("a", "2", "b", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mergeEnv(tc.base, tc.over)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTolerationsAreTheSameIfTheySayTheSame(t *testing.T) {
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	limited := spot
	limited.TolerationSeconds = ptr.To[int64](0)
	again := spot
	again.TolerationSeconds = ptr.To[int64](0)
	got := addTolerations([]corev1.Toleration{spot}, []corev1.Toleration{spot, limited, again})
	if diff := cmp.Diff([]corev1.Toleration{spot, limited}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// lists are what a user can make long, each in a runtime and in a job that patches it.
var lists = map[string]func(n int) (*v1alpha1.TrainJob, Runtime){
	"tolerations": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", i), Operator: corev1.TolerationOpExists})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) { patch.Tolerations = pod.Tolerations })
	},
	"scheduling gates": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.SchedulingGates = append(pod.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprint("k", i)})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) { patch.SchedulingGates = pod.SchedulingGates })
	},
	"volumes": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: fmt.Sprint("v", i)})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) { patch.Volumes = pod.Volumes })
	},
	"mounts": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: fmt.Sprint("/", i)})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) {
			patch.Containers = []v1alpha1.ContainerPatch{{Name: "node", VolumeMounts: pod.Containers[0].VolumeMounts}}
		})
	},
	"variables": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("V", i)})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) {
			patch.Containers = []v1alpha1.ContainerPatch{{Name: "node", Env: pod.Containers[0].Env}}
		})
	},
	"containers": func(n int) (*v1alpha1.TrainJob, Runtime) {
		return patched(n, func(pod *corev1.PodSpec, i int) {
			pod.Containers = append(pod.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
		}, func(patch *v1alpha1.PodSpecPatch, pod *corev1.PodSpec) {
			for i := range pod.Containers {
				patch.Containers = append(patch.Containers, v1alpha1.ContainerPatch{Name: pod.Containers[i].Name, SecurityContext: &corev1.SecurityContext{}})
			}
		})
	},
}

// patched is a runtime with n items in a list of its pod, and a job whose patch has the
// same list.
func patched(n int, add func(*corev1.PodSpec, int), take func(*v1alpha1.PodSpecPatch, *corev1.PodSpec)) (*v1alpha1.TrainJob, Runtime) {
	runtime := torchRuntime()
	pod := podOf(&runtime.Spec.Template.Spec.ReplicatedJobs[0])
	for i := range n {
		add(pod, i)
	}
	var patch v1alpha1.PodSpecPatch
	take(&patch, pod)
	return trainJob(withPodSpecPatch(patch)), runtime
}

// BenchmarkLists shows that ten times the items take ten times as long: to render, to
// bring a JobSet up to date, and to say what could not be applied.
func BenchmarkLists(b *testing.B) {
	for name, make := range lists {
		for _, size := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				job, runtime := make(size)
				for b.Loop() {
					objects := mustRender(b, job, runtime)
					UpdateSuspended(objects.JobSet, objects.JobSet)
					Unapplied(job.Spec.RuntimePatches, objects.JobSet, objects.JobSet)
				}
			})
		}
	}
}
