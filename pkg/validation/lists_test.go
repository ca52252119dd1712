package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// long are runtimes with long lists, right or wrong.
var long = map[string]func(spec *trainer.TrainingRuntimeSpec, i int){
	"tolerations": func(spec *trainer.TrainingRuntimeSpec, i int) {
		pod := podOf(spec, "node")
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", i), Operator: corev1.TolerationOpExists})
	},
	"mounts of unknown volumes": func(spec *trainer.TrainingRuntimeSpec, i int) {
		node := &podOf(spec, "node").Containers[0]
		node.VolumeMounts = append(node.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", i), MountPath: fmt.Sprint("/", i)})
	},
	"mounts at one path": func(spec *trainer.TrainingRuntimeSpec, i int) {
		node := &podOf(spec, "node").Containers[0]
		node.VolumeMounts = append(node.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", i), MountPath: "/"})
	},
	"volumes and their mounts": func(spec *trainer.TrainingRuntimeSpec, i int) {
		pod := podOf(spec, "node")
		withVolume(fmt.Sprint("v", i))(spec)
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", i), MountPath: fmt.Sprint("/", i)})
	},
	"claims that nobody mounts": func(spec *trainer.TrainingRuntimeSpec, i int) { moreClaims(spec, i) },
	"containers without an image": func(spec *trainer.TrainingRuntimeSpec, i int) {
		pod := podOf(spec, "node")
		pod.Containers = append(pod.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
	},
	"jobs that wait for unknown ones": func(spec *trainer.TrainingRuntimeSpec, i int) {
		rjob := builders.ReplicatedJob(fmt.Sprint("r", i), "", "c")
		rjob.DependsOn = []jobset.DependsOn{{Name: "nobody", Status: jobset.DependencyReady}}
		spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, rjob)
	},
	"variables": func(spec *trainer.TrainingRuntimeSpec, i int) {
		node := &podOf(spec, "node").Containers[0]
		node.Env = append(node.Env, corev1.EnvVar{Name: fmt.Sprint("V", i)})
	},
}

func moreClaims(spec *trainer.TrainingRuntimeSpec, i int) {
	if i == 0 {
		claim(spec)
	}
	templates := &spec.Template.Spec.VolumeClaimPolicies[0].Templates
	*templates = append(*templates, (*templates)[0])
}

func longRuntime(n int, add func(*trainer.TrainingRuntimeSpec, int)) trainer.TrainingRuntimeSpec {
	spec := builders.TorchSpec()
	for i := range n {
		add(&spec, i)
	}
	return spec
}

func TestAnAnswerIsShortHoweverMuchIsWrong(t *testing.T) {
	for name, add := range long {
		t.Run(name, func(t *testing.T) {
			spec := longRuntime(1300, add)
			for what, review := range map[string]Review{
				"the runtime": reviewRuntime("torch", spec),
				"a job of it": CreateTrainJob(jobOf(`spec: {trainer: {numNodes: 1}}`), runtimeOf(spec)),
			} {
				if len(review.Errors) > maxErrors+1 || len(review.Warnings) > maxWarnings+1 {
					t.Errorf("%s: %d errors and %d warnings", what, len(review.Errors), len(review.Warnings))
				}
				if size := len(strings.Join(texts(review), "")); size > 1<<14 {
					t.Errorf("%s: an answer of %d bytes", what, size)
				}
			}
		})
	}
}

func TestWhatIsNotListedIsCounted(t *testing.T) {
	spec := longRuntime(1300, long["containers without an image"])
	review := reviewRuntime("torch", spec)
	if len(review.Errors) != maxErrors+1 {
		t.Fatalf("%d errors, want %d and what is left out", len(review.Errors), maxErrors)
	}
	const want = "this and 1279 more errors are not listed: correct the others first"
	if last := review.Errors[maxErrors].Error(); !strings.Contains(last, want) {
		t.Errorf("%s\ndoes not say %s", last, want)
	}
}

// BenchmarkReviewsOfLongLists shows that ten times the items take ten times as long.
func BenchmarkReviewsOfLongLists(b *testing.B) {
	for name, add := range long {
		for _, size := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				spec := longRuntime(size, add)
				runtime, job := runtimeOf(spec), jobOf(`spec: {trainer: {numNodes: 1}}`)
				for b.Loop() {
					CreateTrainJob(job, runtime)
				}
			})
		}
	}
}
