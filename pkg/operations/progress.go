package operations

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
)

// Measuring makes the writer record how long jobs take to start, to run and to end. Each
// of these moments is recorded by whoever writes it into the status. That write carries
// the resourceVersion it was computed from, so there is one such write in the life of
// the job, whatever restarts and new leaders lie between.
func (w *StatusWriter) Measuring(m *metrics.Metrics) *StatusWriter {
	w.metrics = m
	return w
}

// measure records the moments that a write of `next` has brought.
func (w *StatusWriter) measure(job *trainer.TrainJob, next *trainer.TrainJobStatus, now time.Time) {
	before := &job.Status
	if w.metrics == nil || takenOver(before) {
		return
	}
	// The stamps of the status are whole seconds, like that of the creation.
	took := now.Truncate(time.Second).Sub(job.CreationTimestamp.Time)
	queued := next.ResumeTime != nil || next.State == trainer.TrainJobSuspended
	if before.StartTime == nil && next.StartTime != nil {
		w.metrics.JobStarted(queued, took)
	}
	if before.FirstRunningTime == nil && next.FirstRunningTime != nil {
		w.metrics.JobRunning(queued, took)
	}
	for state, outcome := range map[trainer.TrainJobState]metrics.Outcome{
		trainer.TrainJobComplete: metrics.OutcomeComplete, trainer.TrainJobFailed: metrics.OutcomeFailed,
	} {
		if before.State != state && next.State == state && !ended(before) {
			w.metrics.JobFinished(outcome, took)
		}
	}
}

// takenOver says whether the job is one that another controller began with: what it did,
// and when, is not known.
func takenOver(status *trainer.TrainJobStatus) bool {
	return status.Lifecycle == nil && len(status.Conditions) > 0
}

// ended says whether the job had ended already; a state column that somebody has changed
// is then repaired, which is no second end.
func ended(status *trainer.TrainJobStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, string(trainer.TrainJobComplete)) ||
		meta.IsStatusConditionTrue(status.Conditions, string(trainer.TrainJobFailed))
}
