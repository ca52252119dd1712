package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestATemplateWithoutALabelledJobRunsAsItStands(t *testing.T) {
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		first, more := replicatedJob("node", "", "node"), replicatedJob("more", "", "c")
		first.Template.Spec.Parallelism, more.Replicas = ptr.To[int32](3), 2
		first.DependsOn = nil
		spec.Template.Spec.ReplicatedJobs = []jobsetv1alpha2.ReplicatedJob{
			replicatedJob("data", v1alpha1.StepDatasetInitializer, v1alpha1.StepDatasetInitializer), first, more}
		spec.PodGroupPolicy = &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{}}}
	})
	job := trainJob(withTrainer(v1alpha1.Trainer{NumNodes: ptr.To[int32](8)}), func(spec *v1alpha1.TrainJobSpec) {
		spec.Initializer = &v1alpha1.Initializer{Dataset: &v1alpha1.DatasetInitializer{StorageUri: ptr.To("hf://a/b")}}
	})
	objects := mustRender(t, job, runtime)

	want := runtime.Spec.Template.Spec.DeepCopy()
	want.Suspend = ptr.To(false)
	want.ReplicatedJobs[0].Replicas = 1
	podOf(&want.ReplicatedJobs[0]).Containers[0].Env = objects.JobSet.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Env
	if diff := cmp.Diff(want, &objects.JobSet.Spec); diff != "" {
		t.Errorf("the JobSet is not the template (-template +JobSet):\n%s", diff)
	}
	if env := podOf(&objects.JobSet.Spec.ReplicatedJobs[0]).Containers[0].Env; len(env) != 1 || env[0].Value != "hf://a/b" {
		t.Errorf("the initializer has the variables %v", env)
	}
	if objects.Nodes != 5 || objects.TrainerJob != "" || objects.PodGroup != nil {
		t.Errorf("%d nodes, trainer job %q, PodGroup %v; want 5 pods of jobs that are no step, and neither", objects.Nodes, objects.TrainerJob, objects.PodGroup)
	}
}

// What the controller keeps on a JobSet is nobody else's to write: a forged note would
// have child Jobs deleted, or counters invented.
func TestNotesOfTheControllerAreNotTakenFromTemplatesAndPatches(t *testing.T) {
	notes := map[string]string{v1alpha1.AnnotationRemakeJobs: "node", v1alpha1.AnnotationLeftOutJobs: "x", v1alpha1.AnnotationPatchesHash: "x", "a": "b"}
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) { spec.Template.Annotations = notes })
	job := trainJob(func(spec *v1alpha1.TrainJobSpec) {
		template := &v1alpha1.JobSetTemplatePatch{}
		template.Metadata = &trainJob().ObjectMeta
		template.Metadata.Annotations = notes
		spec.RuntimePatches = []v1alpha1.RuntimePatch{{Manager: "m", TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{Template: template}}}
	})
	want := map[string]string{v1alpha1.AnnotationPatchesHash: PatchesHash(job.Spec.RuntimePatches), "a": "b"}
	if diff := cmp.Diff(want, mustRender(t, job, runtime).JobSet.Annotations); diff != "" {
		t.Errorf("annotations of the JobSet (-want +got):\n%s", diff)
	}
}
