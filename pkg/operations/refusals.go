package operations

import (
	"strings"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/trainjob"
)

// refusals are the causes that speak of a job's snapshot. WaitingForRuntime is none:
// nothing was refused yet.
var refusals = map[string]metrics.Refusal{
	trainer.ReasonSnapshotConflict:            metrics.RefusalConflict,
	trainer.ReasonSnapshotTooLarge:            metrics.RefusalTooLarge,
	trainer.ReasonSnapshotInvalid:             metrics.RefusalInvalid,
	trainer.ReasonRuntimeInvalid:              metrics.RefusalRuntimeInvalid,
	trainer.ReasonTrainingRuntimeNotSupported: metrics.RefusalUnsupported,
	trainer.ReasonCreationFailed:              metrics.RefusalCreation,
}

// SnapshotRefusal is the label under which a cause is counted that was in the way of a
// job's snapshot and has just been written to its status. It is false for a cause that
// is about something else, and for one that the job, as it was before that write, has
// been refused for already: a job is looked at again and again while it stays refused.
func SnapshotRefusal(before *trainer.TrainJob, cause *trainjob.Cause) (metrics.Refusal, bool) {
	if cause == nil {
		return "", false
	}
	refusal, ok := refusals[cause.Reason]
	return refusal, ok && !refusedFor(before, cause.Reason)
}

// refusedFor says whether the job's status tells of the reason, as that of Pending or
// within the message of Suspended.
func refusedFor(job *trainer.TrainJob, reason string) bool {
	status := &job.Status
	return status.Reason == reason ||
		(status.State == trainer.TrainJobSuspended && strings.Contains(status.Message, "Pending for "+reason+":"))
}
