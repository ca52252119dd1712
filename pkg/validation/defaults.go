package validation

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
)

// DefaultTrainJob fills in job, in place, what admission sets: the time of patches that
// are new or changed, time limits that a client has dropped which does not know them, and
// in a job of a queue what the queue, or a manifest that does not know of it, has changed
// of what is fixed. old is nil at creation. Doing it once more changes nothing: the API server may ask
// again. A time that the client gives is kept. A job that is being deleted is left alone.
func DefaultTrainJob(old, job *trainer.TrainJob, now time.Time) (warnings []string) {
	if trainjob.BeingDeleted(job) {
		return nil
	}
	if old != nil && Queued(job) {
		warnings = append(putBackFixed(old, job), putBackQueue(old, job)...)
	}
	// The API has whole seconds.
	stamp := metav1.NewTime(now.Truncate(time.Second))
	for i := range job.Spec.RuntimePatches {
		patch := &job.Spec.RuntimePatches[i]
		before := patchOf(old, patch.Manager)
		switch {
		case before != nil && samePatch(before, patch):
			patch.Time = before.Time.DeepCopy()
		case patch.Time == nil || (before != nil && patch.Time.Equal(before.Time)):
			patch.Time = stamp.DeepCopy()
		}
	}
	if old == nil {
		return nil
	}
	limits := limitsOf(old)
	if job.Spec.TTLSecondsAfterFinished == nil && limits.TTLSecondsAfterFinished != nil {
		job.Spec.TTLSecondsAfterFinished = copyOf(limits.TTLSecondsAfterFinished)
		warnings = append(warnings, putBack("ttlSecondsAfterFinished", int64(*limits.TTLSecondsAfterFinished)))
	}
	if job.Spec.ActiveDeadlineSeconds == nil && limits.ActiveDeadlineSeconds != nil {
		job.Spec.ActiveDeadlineSeconds = copyOf(limits.ActiveDeadlineSeconds)
		warnings = append(warnings, putBack("activeDeadlineSeconds", *limits.ActiveDeadlineSeconds))
	}
	return warnings
}

// Queued says whether a job is handed to Kueue.
func Queued(job *trainer.TrainJob) bool { return job.Labels[labelQueue] != "" }

// putBackFixed gives a job of a queue back what was fixed at its creation. Kueue builds
// the job with a library of Kubeflow Trainer's to see what it needs, that library completes
// the commands of torchtune and Flux in place, and Kueue writes them back when it admits
// the job: refused, the job would never start.
func putBackFixed(old, job *trainer.TrainJob) []string {
	changed := checkFixed(old, job)
	if len(changed) == 0 {
		return nil
	}
	was, is := old.Spec.DeepCopy(), &job.Spec
	is.RuntimeRef, is.ManagedBy = was.RuntimeRef, was.ManagedBy
	restore(was.Trainer, &is.Trainer)
	if was.Initializer == nil || is.Initializer == nil {
		is.Initializer = was.Initializer
	} else {
		restore(was.Initializer.Dataset, &is.Initializer.Dataset)
		restore(was.Initializer.Model, &is.Initializer.Model)
	}
	var warnings []string
	for _, err := range changed {
		warnings = append(warnings, err.Field+": it was put back as it was: it is fixed when the job is created, and what a queue rewrites of it changes nothing")
	}
	return warnings
}

// restore sets the fields of a struct that mean something else than they did; what is
// only written in another way stays.
func restore[T any](was *T, is **T) {
	if was == nil || *is == nil {
		*is = was
		return
	}
	before, after := reflect.ValueOf(was).Elem(), reflect.ValueOf(*is).Elem()
	for i := range before.NumField() {
		if !equality.Semantic.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			after.Field(i).Set(before.Field(i))
		}
	}
}

// managerQueue is the manager of the patches in which Kueue says where a job runs.
const managerQueue = "kueue.x-k8s.io/manager"

// putBackQueue gives a job of a queue back the queue's entry of its patches, in its place.
// A manifest that is applied once more does not have it, and client-side apply replaces
// the list; Kueue itself empties its entry and never removes it.
func putBackQueue(old, job *trainer.TrainJob) []string {
	if patchOf(job, managerQueue) != nil {
		return nil
	}
	at := slices.IndexFunc(old.Spec.RuntimePatches, func(p trainer.RuntimePatch) bool { return p.Manager == managerQueue })
	if at < 0 {
		return nil
	}
	entry := *old.Spec.RuntimePatches[at].DeepCopy()
	patches := &job.Spec.RuntimePatches
	*patches = slices.Insert(*patches, min(at, len(*patches)), entry)
	return []string{fmt.Sprintf("%s: the entry of %s was put back: it says where the job runs; use server-side apply, which leaves the entries of others alone", patchesPath, managerQueue)}
}

// SamePatch says whether two entries of patches ask for the same, in whatever way it is
// written.
func SamePatch(a, b *trainer.RuntimePatch) bool { return samePatch(a, b) }

func putBack(name string, value int64) string {
	return fmt.Sprintf("%s: %d was put back: it is fixed when the job is created and cannot be removed", specPath.Child(name), value)
}

func copyOf[T any](value *T) *T {
	copied := *value
	return &copied
}

// patchOf is the entry of a manager, nil if the job has none.
func patchOf(job *trainer.TrainJob, manager string) *trainer.RuntimePatch {
	if job == nil {
		return nil
	}
	for i := range job.Spec.RuntimePatches {
		if job.Spec.RuntimePatches[i].Manager == manager {
			return &job.Spec.RuntimePatches[i]
		}
	}
	return nil
}
