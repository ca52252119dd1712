package validation

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// CreateTrainJob reviews a new job. runtime is the live runtime that it names, as a
// snapshot would hold it, and nil if there is none.
func CreateTrainJob(job *trainer.TrainJob, runtime *runtimesnapshot.Runtime) Review {
	review := Review{Errors: checkReference(job)}
	warnOfLimits(&review, job)
	warnOfPatches(&review, job.Spec.RuntimePatches)
	switch {
	case len(review.Errors) > 0:
	case runtime != nil:
		review.Errors = append(review.Errors, newFaults(job, runtime).errors(job)...)
		warnOfRuntime(&review, job, runtime)
	case trainjob.ManagedByUs(job):
		review.Errors = append(review.Errors, missingRuntime(job))
	default:
		// The job is built in another cluster, where its runtime may be.
		review.warn(runtimeRefPath.Child("name"), "%s does not exist in this cluster, so nothing was checked against it", describe(job))
	}
	review.Errors = append(review.Errors, checkOwnLists(job)...)
	return review.cut()
}

// OpaqueTrainJob reviews a job whose runtime is of a kind that another controller
// understands: only what does not depend on the runtime. old is nil at creation.
func OpaqueTrainJob(old, job *trainer.TrainJob) Review {
	if old != nil {
		return UpdateTrainJob(old, job, nil)
	}
	review := Review{Errors: append(checkReference(job), checkOwnLists(job)...)}
	warnOfLimits(&review, job)
	warnOfPatches(&review, job.Spec.RuntimePatches)
	return review.cut()
}

// UnsupportedTrainJob reviews a job whose runtime is of a kind that nobody here
// understands: it is not among the opaque ones either. Once it exists, however it came to,
// it is like any other.
func UnsupportedTrainJob(old, job *trainer.TrainJob, opaque sets.Set[schema.GroupKind]) Review {
	review := OpaqueTrainJob(old, job)
	switch {
	case old != nil:
	case trainjob.ManagedByUs(job):
		review.Errors = append(review.Errors, invalid(runtimeRefPath, describe(job),
			"this controller understands the kinds %s: name a runtime of one of them, or have the admin allow this kind with --opaque-runtime-kinds",
			trainjob.UnderstoodKinds(opaque)))
	default:
		// The job is built in another cluster, whose controller may understand more.
		review.warn(runtimeRefPath, "nobody in this cluster understands the kind of %s, so nothing was checked against it", describe(job))
	}
	return review.cut()
}

// checkReference refuses names that no runtime can have.
func checkReference(job *trainer.TrainJob) field.ErrorList {
	name := job.Spec.RuntimeRef.Name
	path := runtimeRefPath.Child("name")
	if name == "" {
		return field.ErrorList{field.Required(path, "name the runtime that the job is to use")}
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return field.ErrorList{invalid(path, name,
			"no runtime can have this name: use lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit")}
	}
	return nil
}

func missingRuntime(job *trainer.TrainJob) *field.Error {
	err := field.NotFound(runtimeRefPath.Child("name"), job.Spec.RuntimeRef.Name)
	err.Detail = fmt.Sprintf("%s does not exist: create it first, or name one that exists (kubectl get %s)", describe(job), plural(job))
	return err
}

func kindOf(job *trainer.TrainJob) string {
	return ptr.Deref(job.Spec.RuntimeRef.Kind, trainer.ClusterTrainingRuntimeKind)
}

func plural(job *trainer.TrainJob) string {
	if kindOf(job) == trainer.TrainingRuntimeKind {
		return "trainingruntimes -n " + job.Namespace
	}
	return "clustertrainingruntimes"
}

// describe names a job's runtime in a message.
func describe(job *trainer.TrainJob) string {
	kind, name := kindOf(job), shortened(job.Spec.RuntimeRef.Name)
	group := ptr.Deref(job.Spec.RuntimeRef.APIGroup, trainer.GroupName)
	switch {
	case group != trainer.GroupName:
		return fmt.Sprintf("%s.%s %q", kind, group, name)
	case kind == trainer.TrainingRuntimeKind:
		return fmt.Sprintf("%s %q in namespace %q", kind, name, job.Namespace)
	}
	return fmt.Sprintf("%s %q", kind, name)
}

// faults is everything that is wrong with a job on a runtime.
type faults struct {
	list    field.ErrorList
	objects *render.Objects // nil if the job cannot be rendered
}

// newFaults looks for what keeps a job from being built from a runtime, and for what the
// cluster would refuse of what is built.
func newFaults(job *trainer.TrainJob, runtime *runtimesnapshot.Runtime) faults {
	job = named(job)
	objects, err := render.Render(job, render.FromSnapshot(runtime))
	if err != nil {
		var invalid *render.Error
		if errors.As(err, &invalid) {
			return faults{list: invalid.Errs}
		}
		return faults{list: field.ErrorList{field.InternalError(runtimeRefPath, err)}}
	}
	found := faults{objects: objects}
	found.list = append(found.list, checkReserved(job, objects)...)
	found.list = append(found.list, checkJobSet(&objects.JobSet.Spec)...)
	found.list = append(found.list, checkPods(job, objects)...)
	found.list = append(found.list, checkJobs(job, objects)...)
	return found
}

// named gives a job that has yet to get its name one of the same length.
func named(job *trainer.TrainJob) *trainer.TrainJob {
	if job.Name != "" {
		return job
	}
	job = job.DeepCopy()
	job.Name = job.GenerateName + "xxxxx"
	return job
}

// errors are the faults as errors of the job: what is wrong with the runtime is wrong
// with the reference to it.
func (f faults) errors(job *trainer.TrainJob) field.ErrorList {
	var list field.ErrorList
	told := sets.New[string]()
	for _, err := range f.list {
		if told.Has(err.Error()) {
			continue // it concerns launcher and workers
		}
		told.Insert(err.Error())
		if ofRuntime(err.Field) {
			err = invalid(runtimeRefPath.Child("name"), job.Spec.RuntimeRef.Name,
				"%s cannot be used for this job: %v; correct the runtime or use another one", describe(job), err)
		}
		list = append(list, err)
	}
	return list
}
