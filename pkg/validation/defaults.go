package validation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
)

// DefaultTrainJob fills in job, in place, what admission sets: the time of patches that
// are new or changed, and time limits that a client has dropped which does not know them.
// old is nil at creation. Doing it once more changes nothing: the API server may ask
// again. A time that the client gives is kept. A job that is being deleted is left alone.
func DefaultTrainJob(old, job *trainer.TrainJob, now time.Time) (warnings []string) {
	if trainjob.BeingDeleted(job) {
		return nil
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
