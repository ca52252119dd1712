package validation

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// jobOf is a job of runtime `torch` with YAML laid over it.
func jobOf(layers ...string) *trainer.TrainJob {
	job := builders.TrainJob("bert")
	for _, layer := range layers {
		if err := yaml.UnmarshalStrict([]byte(layer), job); err != nil {
			panic(fmt.Sprintf("%v in:\n%s", err, layer))
		}
	}
	return job
}

// inPod writes a patch of the pods of a replicatedJob by manager `m`.
func inPod(rjob, pod string) string {
	return `spec: {runtimePatches: [` + entry("m", rjob, pod) + `]}`
}

func entry(manager, rjob, pod string) string {
	return `{manager: ` + manager + `, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [
		{name: ` + rjob + `, template: {spec: {template: {spec: ` + pod + `}}}}]}}}}`
}

type specChange = func(*trainer.TrainingRuntimeSpec)

func changed(spec trainer.TrainingRuntimeSpec, changes ...specChange) trainer.TrainingRuntimeSpec {
	for _, change := range changes {
		change(&spec)
	}
	return spec
}

// runtimeOf is a ClusterTrainingRuntime `torch` as a snapshot would hold it.
func runtimeOf(spec trainer.TrainingRuntimeSpec, changes ...specChange) *runtimesnapshot.Runtime {
	return runtimesnapshot.FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("torch", changed(spec, changes...)))
}

func torch(changes ...specChange) *runtimesnapshot.Runtime {
	return runtimeOf(builders.TorchSpec(), changes...)
}

// podOf is the pod of a replicatedJob of a spec.
func podOf(spec *trainer.TrainingRuntimeSpec, rjob string) *corev1.PodSpec {
	return &rjobOf(spec, rjob).Template.Spec.Template.Spec
}

func rjobOf(spec *trainer.TrainingRuntimeSpec, name string) *jobset.ReplicatedJob {
	for i := range spec.Template.Spec.ReplicatedJobs {
		if spec.Template.Spec.ReplicatedJobs[i].Name == name {
			return &spec.Template.Spec.ReplicatedJobs[i]
		}
	}
	panic("no replicatedJob " + name)
}

// withLimits gives the training container limits.
func withLimits(limits ...string) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		list := corev1.ResourceList{}
		for i := 0; i < len(limits); i += 2 {
			list[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
		}
		podOf(spec, "node").Containers[0].Resources.Limits = list
	}
}

func withVolume(name string) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		pod := podOf(spec, "node")
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}

func withInit(name string) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		pod := podOf(spec, "node")
		pod.InitContainers = append(pod.InitContainers, corev1.Container{Name: name, Image: name})
	}
}

func injecting(rjob, container string) specChange {
	return func(spec *trainer.TrainingRuntimeSpec) {
		spec.MLPolicy.Torch.EnvInjection = &trainer.EnvInjection{Targets: []trainer.EnvInjectionTarget{{JobName: rjob, ContainerNames: []string{container}}}}
	}
}

// reviewRuntime reviews a ClusterTrainingRuntime of that name.
func reviewRuntime(name string, spec trainer.TrainingRuntimeSpec, changes ...specChange) Review {
	spec = changed(spec, changes...)
	return Runtime(&metav1.ObjectMeta{Name: name}, &spec)
}

// started is what the status says of a job whose JobSet exists.
const started = `status: {startTime: "2026-03-01T12:00:10Z"}`

var now = builders.At(60).Add(300 * time.Millisecond)

// texts are all that a review says.
func texts(review Review) []string {
	all := make([]string, 0, len(review.Errors)+len(review.Warnings))
	for _, err := range review.Errors {
		all = append(all, err.Error())
	}
	return append(all, review.Warnings...)
}

func mustPass(t *testing.T, what string, review Review) {
	t.Helper()
	if all := texts(review); len(all) > 0 {
		t.Errorf("%s: %q", what, all)
	}
}
