package trainjob

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/lifetime"
)

// ManagedByUs says whether this controller runs the job at all.
func ManagedByUs(job *trainer.TrainJob) bool {
	by := ptr.Deref(job.Spec.ManagedBy, "")
	return by == "" || by == trainer.ManagedByTrainJobController
}

// Suspended says whether the user wants the job held back.
func Suspended(job *trainer.TrainJob) bool {
	return ptr.Deref(job.Spec.Suspend, false)
}

// BeingDeleted says whether the job has been deleted and waits for finalizers.
func BeingDeleted(job *trainer.TrainJob) bool {
	return !job.DeletionTimestamp.IsZero()
}

// Finished says whether the job is Complete or Failed, for ever.
func Finished(job *trainer.TrainJob) bool {
	return terminalCondition(job) != nil
}

// End is Complete or Failed, whichever the job has come to, and empty before that.
func End(job *trainer.TrainJob) trainer.TrainJobState {
	if c := terminalCondition(job); c != nil {
		return trainer.TrainJobState(c.Type)
	}
	return ""
}

// FinishTime is when the job became Complete or Failed.
func FinishTime(job *trainer.TrainJob) (time.Time, bool) {
	if c := terminalCondition(job); c != nil {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

// FailedFor says whether the job is Failed with the given reason.
func FailedFor(job *trainer.TrainJob, reason string) bool {
	c := terminalCondition(job)
	return c != nil && c.Type == string(trainer.TrainJobFailed) && c.Reason == reason
}

// terminalCondition is the terminal condition that is True. Should another writer
// have set both, the one that was set first counts: a terminal state is never left.
func terminalCondition(job *trainer.TrainJob) *metav1.Condition {
	var first *metav1.Condition
	for _, state := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		c := meta.FindStatusCondition(job.Status.Conditions, string(state))
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		if first == nil || c.LastTransitionTime.Before(&first.LastTransitionTime) {
			first = c
		}
	}
	return first
}

// Inherited says whether the job has a status of which nothing is this controller's: it
// was another one's, as after a migration, and may have children that carry none of our
// labels and records.
func Inherited(job *trainer.TrainJob) bool {
	return job.Status.Lifecycle == nil && job.Status.State == "" &&
		(len(job.Status.Conditions) > 0 || len(job.Status.JobsStatus) > 0)
}

// Limits are the time limits that are enforced: those recorded at the first sync,
// and before it those of the spec.
func Limits(job *trainer.TrainJob) trainer.LifecycleLimits {
	if job.Status.Lifecycle != nil {
		return *job.Status.Lifecycle
	}
	return trainer.LifecycleLimits{
		TTLSecondsAfterFinished: job.Spec.TTLSecondsAfterFinished,
		ActiveDeadlineSeconds:   job.Spec.ActiveDeadlineSeconds,
	}
}

// TTL judges the time to delete the job; Never for a job that has not finished.
func TTL(job *trainer.TrainJob, now time.Time) lifetime.Verdict {
	finished, ok := FinishTime(job)
	if !ok {
		return lifetime.Verdict{Kind: lifetime.Never}
	}
	return lifetime.TTL(finished, Limits(job).TTLSecondsAfterFinished, now)
}

// Ownership is how an object with a name of ours relates to a TrainJob.
type Ownership int

const (
	// Foreign: owned by nobody or by a stranger. It is never touched.
	Foreign Ownership = iota
	// Ours: owned by this very TrainJob.
	Ours
	// Older: owned by another TrainJob of the same name, which has been deleted and
	// takes the object with it. It is waited for.
	Older
)

func (o Ownership) String() string {
	return [...]string{"foreign", "ours", "older"}[o]
}

// OwnershipOf judges an object by its controller owner reference.
func OwnershipOf(job *trainer.TrainJob, object metav1.Object) Ownership {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != trainer.TrainJobKind || owner.Name != job.Name {
		return Foreign
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != trainer.GroupName {
		return Foreign
	}
	if owner.UID == job.UID {
		return Ours
	}
	return Older
}

// OwnerReference is the reference that makes a TrainJob the controller of an object.
func OwnerReference(job *trainer.TrainJob) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, trainer.SchemeGroupVersion.WithKind(trainer.TrainJobKind))
}

// Kind is the group and kind of TrainJobs, as owner references name it.
var Kind = trainer.Kind(trainer.TrainJobKind)

// RecheckAfter is when to look again for something in the job's way whose going away no
// watch shows: after 5 s at first, growing with the time the job has been in its state
// to a minute.
func RecheckAfter(job *trainer.TrainJob, now time.Time) time.Duration {
	return min(max(inState(job, now), 5*time.Second), time.Minute)
}

// RetryAfter is when to try again what the API server has refused: after 1 s at first,
// growing with the time the job has been in its state to 45 s.
func RetryAfter(job *trainer.TrainJob, now time.Time) time.Duration {
	return min(max(inState(job, now), time.Second), 45*time.Second)
}

// inState is how long the job has been in its state, or in existence.
func inState(job *trainer.TrainJob, now time.Time) time.Duration {
	if since := job.Status.LastTransitionTime; since != nil {
		return now.Sub(since.Time)
	}
	return now.Sub(job.CreationTimestamp.Time)
}
