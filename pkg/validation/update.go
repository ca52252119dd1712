package validation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// UpdateTrainJob reviews a change of a job. snapshot is the job's own snapshot; while
// none has been taken, the live runtime stands in, and nil if there is none either.
//
// Only what changes is judged. An update that leaves spec alone passes, and so does one
// of a job that is being deleted or only suspends or resumes it, whatever is wrong with
// the job or its runtime by now. In what is judged, only faults count that the old job
// did not have.
func UpdateTrainJob(old, job *trainer.TrainJob, snapshot *runtimesnapshot.Runtime) Review {
	var review Review
	if trainjob.BeingDeleted(job) || equality.Semantic.DeepEqual(old.Spec, job.Spec) {
		return review
	}
	review.Errors = append(checkFixed(old, job), checkLimits(old, job)...)
	if samePatches(old.Spec.RuntimePatches, job.Spec.RuntimePatches) {
		return review
	}
	warnOfPatches(&review, job.Spec.RuntimePatches)
	if !trainjob.Suspended(old) && !trainjob.Suspended(job) {
		review.Errors = append(review.Errors, field.Forbidden(patchesPath,
			"a job's patches can be changed only while spec.suspend is true before or after the update: suspend the job, or suspend it in the same update"))
		return review
	}
	if trainjob.Finished(old) {
		return review // nothing is built from it any more
	}
	review.Errors = append(review.Errors, brought(checkOwnLists(old), old, checkOwnLists(job), job)...)
	if snapshot == nil {
		return review.cut()
	}
	before, after := newFaults(old, snapshot), newFaults(job, snapshot)
	review.Errors = append(review.Errors, broughtFaults(before, old, after, job)...)
	if before.objects != nil && after.objects != nil && hasJobSet(old) {
		review.Errors = append(review.Errors, checkApplicable(old, job, before.objects, after.objects)...)
	}
	return review.cut()
}

// checkFixed refuses changes of what was fixed at creation. Two ways of writing the same
// are the same: clients that write a whole job back write "0.5" as "500m".
func checkFixed(old, job *trainer.TrainJob) field.ErrorList {
	was, is := &old.Spec, &job.Spec
	var errs field.ErrorList
	fixed := func(path *field.Path, value any, same bool) {
		if !same {
			errs = append(errs, isFixed(path, value))
		}
	}
	fixed(runtimeRefPath, runtimeName(describe(job)), was.RuntimeRef.Name == is.RuntimeRef.Name && kindOf(old) == kindOf(job) &&
		ptr.Deref(was.RuntimeRef.APIGroup, trainer.GroupName) == ptr.Deref(is.RuntimeRef.APIGroup, trainer.GroupName))
	errs = append(errs, fixedFields(trainerPath, was.Trainer, is.Trainer)...)
	path := specPath.Child("initializer")
	if was.Initializer != nil && is.Initializer != nil {
		errs = append(errs, fixedFields(path.Child("dataset"), was.Initializer.Dataset, is.Initializer.Dataset)...)
		errs = append(errs, fixedFields(path.Child("model"), was.Initializer.Model, is.Initializer.Model)...)
	} else {
		fixed(path, is.Initializer, was.Initializer == is.Initializer)
	}
	fixed(specPath.Child("managedBy"), is.ManagedBy, ptr.Deref(was.ManagedBy, trainer.ManagedByTrainJobController) == ptr.Deref(is.ManagedBy, trainer.ManagedByTrainJobController))
	return errs
}

func isFixed(path *field.Path, value any) *field.Error {
	return field.Forbidden(path, fmt.Sprintf("it is fixed when the job is created and cannot %s: create the job anew to change it", becoming(value)))
}

// becoming says in a message what a field would be.
func becoming(value any) string {
	if text, ok := value.(runtimeName); ok {
		return "become " + string(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "change"
	}
	if string(text) == "null" {
		return "be removed"
	}
	return "become " + shortened(string(text))
}

// runtimeName is a runtime as describe writes it.
type runtimeName string

// fixedFields names the fields in which two structs differ, or the struct itself if one
// of them is absent.
func fixedFields[T any](path *field.Path, was, is *T) field.ErrorList {
	if was == nil || is == nil {
		if was != is {
			return field.ErrorList{isFixed(path, is)}
		}
		return nil
	}
	var errs field.ErrorList
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	for i := range a.NumField() {
		if !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			errs = append(errs, isFixed(path.Child(name), b.Field(i).Interface()))
		}
	}
	return errs
}

// checkLimits refuses time limits other than those the job was created with. They may be
// missing: clients with older types drop them, and what is enforced is in the status.
func checkLimits(old, job *trainer.TrainJob) field.ErrorList {
	var errs field.ErrorList
	was := limitsOf(old)
	if is := job.Spec.TTLSecondsAfterFinished; is != nil && !ptr.Equal(is, was.TTLSecondsAfterFinished) {
		errs = append(errs, changedLimit("ttlSecondsAfterFinished", *is, was.TTLSecondsAfterFinished))
	}
	if is := job.Spec.ActiveDeadlineSeconds; is != nil && !ptr.Equal(is, was.ActiveDeadlineSeconds) {
		errs = append(errs, changedLimit("activeDeadlineSeconds", *is, was.ActiveDeadlineSeconds))
	}
	return errs
}

// limitsOf are the limits a job was created with: those of the spec, and where a client
// has dropped one, that of the status.
func limitsOf(job *trainer.TrainJob) trainer.LifecycleLimits {
	limits := ptr.Deref(job.Status.Lifecycle, trainer.LifecycleLimits{})
	if job.Spec.TTLSecondsAfterFinished != nil {
		limits.TTLSecondsAfterFinished = job.Spec.TTLSecondsAfterFinished
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		limits.ActiveDeadlineSeconds = job.Spec.ActiveDeadlineSeconds
	}
	return limits
}

func changedLimit[T int32 | int64](name string, is T, was *T) *field.Error {
	then := "without one"
	if was != nil {
		then = fmt.Sprintf("with %d", *was)
	}
	return field.Invalid(specPath.Child(name), is, fmt.Sprintf(
		"it is fixed when the job is created, and this one was created %s: create the job anew to change it", then))
}

// samePatches says whether two lists of patches ask for the same. The time of an entry
// is only for people to read.
func samePatches(a, b []trainer.RuntimePatch) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !samePatch(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func samePatch(a, b *trainer.RuntimePatch) bool {
	return a.Manager == b.Manager && equality.Semantic.DeepEqual(a.TrainingRuntimeSpec, b.TrainingRuntimeSpec)
}

// hasJobSet says whether the job's JobSet has been created.
func hasJobSet(job *trainer.TrainJob) bool {
	return job.Status.StartTime != nil || len(job.Status.JobsStatus) > 0
}

// broughtFaults are the errors that the job has and the old one had not. What could not
// be looked for in the old one, because it could not even be rendered, counts only where
// it is the changed patches' own.
func broughtFaults(before faults, old *trainer.TrainJob, after faults, job *trainer.TrainJob) field.ErrorList {
	list := brought(before.list, old, after.list, job)
	if before.objects == nil {
		var own field.ErrorList
		for _, err := range list {
			if below(err.Field, patchesPath) {
				own = append(own, err)
			}
		}
		list = own
	}
	return faults{list: list}.errors(job)
}

// brought are the errors of after that are not in before.
func brought(before field.ErrorList, old *trainer.TrainJob, after field.ErrorList, job *trainer.TrainJob) field.ErrorList {
	known := sets.New[string]()
	for _, err := range before {
		known.Insert(byManager(err, old))
	}
	var list field.ErrorList
	for _, err := range after {
		if !known.Has(byManager(err, job)) {
			list = append(list, err)
		}
	}
	return list
}

// byManager writes an error with the manager in place of the number of its patch: the
// number is another one when an entry before it was removed.
func byManager(err *field.Error, job *trainer.TrainJob) string {
	text := err.Error()
	for i := range job.Spec.RuntimePatches {
		prefix := patchesPath.Index(i).String()
		if rest, found := strings.CutPrefix(text, prefix); found {
			return patchesPath.Key(job.Spec.RuntimePatches[i].Manager).String() + rest
		}
	}
	return text
}

// checkApplicable refuses changes that a JobSet which exists cannot take.
func checkApplicable(old, job *trainer.TrainJob, before, after *render.Objects) field.ErrorList {
	late := render.Unapplied(job.Spec.RuntimePatches, before.JobSet, after.JobSet)
	// What the old patches set and the new ones do not can no longer be taken away.
	late = append(late, render.Unapplied(old.Spec.RuntimePatches, after.JobSet, before.JobSet)...)
	var errs field.ErrorList
	for _, name := range sets.List(sets.New(late...)) {
		errs = append(errs, field.Forbidden(patchesPath, fmt.Sprintf(
			"%s cannot be changed any more, because the job's JobSet exists: it still takes labels, annotations, nodeSelector, tolerations and schedulingGates of pods; leave the field as it is, or create the job anew", name)))
	}
	return errs
}
