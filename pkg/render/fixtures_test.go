package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// torchRuntime is the smallest torch runtime: two nodes, one job, one container.
func torchRuntime(change ...func(*v1alpha1.TrainingRuntimeSpec)) Runtime {
	runtime := Runtime{Kind: v1alpha1.ClusterTrainingRuntimeKind, Name: "torch", Spec: v1alpha1.TrainingRuntimeSpec{
		MLPolicy: &v1alpha1.MLPolicy{
			NumNodes:       ptr.To[int32](2),
			MLPolicySource: v1alpha1.MLPolicySource{Torch: &v1alpha1.TorchMLPolicySource{}},
		},
		Template: v1alpha1.JobSetTemplateSpec{Spec: jobsetv1alpha2.JobSetSpec{
			ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{replicatedJob("node", v1alpha1.StepTrainer, "node")},
		}},
	}}
	for _, f := range change {
		f(&runtime.Spec)
	}
	return runtime
}

// initRuntime is torchRuntime with both initializers before the trainer.
func initRuntime() Runtime {
	return torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		trainer := spec.Template.Spec.ReplicatedJobs[0]
		trainer.DependsOn = []jobsetv1alpha2.DependsOn{{Name: "dataset-initializer", Status: jobsetv1alpha2.DependencyComplete}}
		spec.Template.Spec.ReplicatedJobs = []jobsetv1alpha2.ReplicatedJob{
			replicatedJob("dataset-initializer", v1alpha1.StepDatasetInitializer, "dataset-initializer"),
			replicatedJob("model-initializer", v1alpha1.StepModelInitializer, "model-initializer"),
			trainer,
		}
	})
}

// withoutPolicy takes the mlPolicy out of a runtime.
func withoutPolicy(spec *v1alpha1.TrainingRuntimeSpec) { spec.MLPolicy = nil }

func replicatedJob(name, step string, containers ...string) jobsetv1alpha2.ReplicatedJob {
	rjob := jobsetv1alpha2.ReplicatedJob{Name: name}
	if step != "" {
		rjob.Template.Labels = map[string]string{v1alpha1.LabelAncestorStep: step}
	}
	for _, container := range containers {
		pod := podOf(&rjob)
		pod.Containers = append(pod.Containers, corev1.Container{Name: container, Image: "runtime"})
	}
	return rjob
}

func podOf(rjob *jobsetv1alpha2.ReplicatedJob) *corev1.PodSpec {
	return &rjob.Template.Spec.Template.Spec
}

// node is the training container of a runtime made by torchRuntime.
func node(spec *v1alpha1.TrainingRuntimeSpec) *corev1.Container {
	rjobs := spec.Template.Spec.ReplicatedJobs
	return &podOf(&rjobs[len(rjobs)-1]).Containers[0]
}

func trainJob(change ...func(*v1alpha1.TrainJobSpec)) *v1alpha1.TrainJob {
	job := &v1alpha1.TrainJob{ObjectMeta: metav1.ObjectMeta{Name: "bert", Namespace: "research", UID: "u1"}}
	for _, f := range change {
		f(&job.Spec)
	}
	return job
}

func withTrainer(trainer v1alpha1.Trainer) func(*v1alpha1.TrainJobSpec) {
	return func(spec *v1alpha1.TrainJobSpec) { spec.Trainer = &trainer }
}

// withPodPatch patches the pods of one replicatedJob.
func withPodPatch(rjob string, patch v1alpha1.PodTemplatePatch) func(*v1alpha1.TrainJobSpec) {
	return func(spec *v1alpha1.TrainJobSpec) {
		spec.RuntimePatches = append(spec.RuntimePatches, v1alpha1.RuntimePatch{
			Manager: "example.com/manager",
			TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{Template: &v1alpha1.JobSetTemplatePatch{
				Spec: &v1alpha1.JobSetSpecPatch{ReplicatedJobs: []v1alpha1.ReplicatedJobPatch{{
					Name:     rjob,
					Template: &v1alpha1.JobTemplatePatch{Spec: &v1alpha1.JobSpecPatch{Template: &patch}},
				}}},
			}},
		})
	}
}

func withPodSpecPatch(patch v1alpha1.PodSpecPatch) func(*v1alpha1.TrainJobSpec) {
	return withPodPatch("node", v1alpha1.PodTemplatePatch{Spec: &patch})
}

func mustRender(t testing.TB, job *v1alpha1.TrainJob, runtime Runtime) *Objects {
	t.Helper()
	objects, err := Render(job, runtime)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return objects
}

// trainerPod is the pod spec of the trainer job.
func trainerPod(t testing.TB, objects *Objects) *corev1.PodSpec {
	t.Helper()
	for i := range objects.JobSet.Spec.ReplicatedJobs {
		if rjob := &objects.JobSet.Spec.ReplicatedJobs[i]; rjob.Name == objects.TrainerJob {
			return podOf(rjob)
		}
	}
	t.Fatalf("the JobSet has no replicatedJob %q", objects.TrainerJob)
	return nil
}

// fromFiles reads a runtime and a TrainJob from testdata.
func fromFiles(t testing.TB, runtimeName, jobName string) (*v1alpha1.TrainJob, Runtime) {
	t.Helper()
	var runtime v1alpha1.ClusterTrainingRuntime
	var job v1alpha1.TrainJob
	decode(t, filepath.Join("testdata", "runtimes", runtimeName+".yaml"), &runtime)
	decode(t, filepath.Join("testdata", "jobs", jobName+".yaml"), &job)
	return &job, Runtime{
		Kind: runtime.Kind, Name: runtime.Name,
		Labels: runtime.Labels, Annotations: runtime.Annotations, Spec: runtime.Spec,
	}
}

func decode(t testing.TB, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func toJSON(t testing.TB, object any) string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
