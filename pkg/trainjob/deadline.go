package trainjob

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/lifetime"
)

// DeadlineFrom is the moment that active deadlines count from. The zero value means
// FromCreation.
type DeadlineFrom string

const (
	// FromCreation: the deadline runs from the job's creation, whatever happens to it.
	FromCreation DeadlineFrom = "creation"
	// FromResume: it runs from the last resume, or from creation if there was none, and
	// not while the job is suspended, like the deadline of a Kubernetes Job.
	FromResume DeadlineFrom = "resume"
)

// DeadlinesFrom lists every value.
func DeadlinesFrom() []DeadlineFrom {
	return []DeadlineFrom{FromCreation, FromResume}
}

// Deadline judges the job's active deadline. Everything that acts on a deadline must
// ask with the same `from`: one part would else stand back for an end that another
// never brings about.
func Deadline(job *trainer.TrainJob, from DeadlineFrom, now time.Time) lifetime.Verdict {
	seconds := Limits(job).ActiveDeadlineSeconds
	if from != FromResume {
		return lifetime.Deadline(job.CreationTimestamp.Time, seconds, now)
	}
	if Suspended(job) {
		return lifetime.Verdict{Kind: lifetime.Never} // whether or not the status says so yet
	}
	start, _ := resumed(job, now)
	return lifetime.Deadline(start, seconds, now)
}

// DeadlineStart is the moment that the job's deadline counts from, and whether that is
// a resume.
func DeadlineStart(job *trainer.TrainJob, from DeadlineFrom, now time.Time) (start time.Time, resume bool) {
	if from != FromResume {
		return job.CreationTimestamp.Time, false
	}
	return resumed(job, now)
}

// resumed is when a job that is not suspended was resumed last, out of what its status
// has recorded; its creation if it never was. A resume that the status does not show
// yet is taken to be now, so that no old time fails the job: the status write that
// records it brings the job back with a time that lasts.
func resumed(job *trainer.TrainJob, now time.Time) (start time.Time, resume bool) {
	created := job.CreationTimestamp.Time
	at := resumeTime(job, metav1.NewTime(now))
	if at == nil || (at.Time.Before(created) && !at.Time.Equal(now)) {
		return created, false // nobody resumes a job that does not exist: a foreign hand
	}
	return at.Time, true
}

// resumeTime is the status.resumeTime that an unfinished job must have: `now` if it has
// been resumed since its status was written.
func resumeTime(job *trainer.TrainJob, now metav1.Time) *metav1.Time {
	condition := meta.FindStatusCondition(job.Status.Conditions, string(trainer.TrainJobSuspended))
	wasSuspended := job.Status.State == trainer.TrainJobSuspended || (condition != nil && condition.Status != metav1.ConditionFalse)
	switch {
	case !Suspended(job) && (wasSuspended || resumedUnseen(job)):
		return &now
	case condition != nil && condition.Status == metav1.ConditionFalse:
		return condition.LastTransitionTime.DeepCopy() // of an earlier build, or of Trainer: it goes with this write
	}
	return job.Status.ResumeTime.DeepCopy()
}

// resumedUnseen says whether a job whose status has not been written yet has been
// suspended in its life all the same: it was created suspended, and resumed before any
// controller saw it. The only changes that the API lets anyone make to a job's spec are
// made in suspension, or put it into suspension, or out of it.
func resumedUnseen(job *trainer.TrainJob) bool {
	if Suspended(job) || stateRecorded(job) {
		return false
	}
	edits := job.Generation - 1
	if BeingDeleted(job) {
		edits-- // a deletion that has to wait for finalizers counts as a change too
	}
	return edits > 0
}

// stateRecorded says whether the job has ever been synced, by this controller or by the
// one it was taken over from.
func stateRecorded(job *trainer.TrainJob) bool {
	if job.Status.State != "" {
		return true
	}
	for _, state := range conditionTypes {
		if meta.FindStatusCondition(job.Status.Conditions, string(state)) != nil {
			return true
		}
	}
	return false
}
