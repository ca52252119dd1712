package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// Runtime reviews a runtime of either kind, at its creation and at every change. Refused
// is what no job could be built from; what a job can still put right by its own fields
// is a warning.
func Runtime(metadata *metav1.ObjectMeta, spec *trainer.TrainingRuntimeSpec) Review {
	review := Review{Errors: checkReplicas(spec)}
	runtime := &runtimesnapshot.Runtime{
		Metadata: runtimesnapshot.Metadata{Name: metadata.Name, Namespace: metadata.Namespace, Labels: metadata.Labels},
		Spec:     *spec,
	}
	runtime.Kind = trainer.ClusterTrainingRuntimeKind
	if metadata.Namespace != "" {
		runtime.Kind = trainer.TrainingRuntimeKind
	}
	for _, err := range newFaults(simplestJob(spec), runtime).list {
		switch {
		case ofRuntime(err.Field) && err.Origin != byPatch:
			review.Errors = append(review.Errors, err)
		case err.Field == "metadata.name":
			review.Errors = append(review.Errors, tooLongNames(err))
		default:
			review.Warnings = append(review.Warnings, fmt.Sprintf("jobs that do not put this right will be refused: %v", err))
		}
	}
	warnOfTemplate(&review, spec)
	return review.cut()
}

// simplestJob is a job that asks as little of a runtime as any: a short name, the
// runtime's own number of nodes but at least one, and each step that the runtime has.
func simplestJob(spec *trainer.TrainingRuntimeSpec) *trainer.TrainJob {
	job := &trainer.TrainJob{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "a", UID: "a"}}
	job.Spec.Trainer = &trainer.Trainer{}
	if stepJob(&spec.Template.Spec, trainer.StepTrainer) != nil {
		job.Spec.Trainer.Image = ptr.To("a")
	}
	if policy := spec.MLPolicy; policy != nil && ptr.Deref(policy.NumNodes, 1) < 1 {
		job.Spec.Trainer.NumNodes = ptr.To[int32](1)
	}
	steps := &trainer.Initializer{}
	if stepJob(&spec.Template.Spec, trainer.StepDatasetInitializer) != nil {
		steps.Dataset = &trainer.DatasetInitializer{}
	}
	if stepJob(&spec.Template.Spec, trainer.StepModelInitializer) != nil {
		steps.Model = &trainer.ModelInitializer{}
	}
	job.Spec.Initializer = steps
	return job
}

// checkReplicas refuses more than one of what there is always one of.
func checkReplicas(spec *trainer.TrainingRuntimeSpec) field.ErrorList {
	var errs field.ErrorList
	jobs := spec.Template.Spec.ReplicatedJobs
	var trained []string
	if rjob := stepJob(&spec.Template.Spec, trainer.StepTrainer); rjob != nil {
		trained = framework.TrainedJobs(spec.MLPolicy, rjob.Name)
	}
	for i := range jobs {
		switch jobs[i].Template.Labels[trainer.LabelAncestorStep] {
		case trainer.StepTrainer, trainer.StepDatasetInitializer, trainer.StepModelInitializer:
		default:
			if !slices.Contains(trained, jobs[i].Name) {
				continue
			}
		}
		if jobs[i].Replicas > 1 {
			errs = append(errs, field.Invalid(jobsPath.Index(i).Child("replicas"), jobs[i].Replicas,
				"there is always one replica of a step; set 1, and the number of training nodes in spec.mlPolicy.numNodes"))
		}
	}
	return errs
}

// tooLongNames turns an error about the name of the simplest job into one about the
// names of the template.
func tooLongNames(err *field.Error) *field.Error {
	detail, _, _ := strings.Cut(err.Detail, ": use a name")
	return field.Invalid(jobsPath, err.BadValue, "with the shortest name that a job can have, "+detail+": give the replicatedJob a shorter name of lower-case letters, digits and '-'")
}
