package trainjob

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// preflightPatience is how long the end of a job waits for the report that explains it.
const preflightPatience = 5 * time.Second

// Reasons of a JobSet that a failed check may have ended. From JobSet's constants, which
// are not in its API.
const (
	jobSetFailedByPolicy = "FailJobSetFailurePolicyAction"
	jobSetMaxRestarts    = "ReachedMaxRestarts"
)

// WithPreflight is the status of a job with what its checks have found; nil keeps what the
// status says. A job that has ended keeps it in any case.
func WithPreflight(job *trainer.TrainJob, found *trainer.PreflightStatus) *trainer.TrainJobStatus {
	next := job.Status.DeepCopy()
	if found != nil && !Finished(job) {
		next.Preflight = found
	}
	return next
}

// endedByPreflight says whether the JobSet has failed because a check has, in its last run.
func endedByPreflight(job *trainer.TrainJob, js *jobset.JobSet) bool {
	found := job.Status.Preflight
	return mayBePreflight(js) && found != nil && report.Outcome(found.Outcome).Worse(report.Warning) && found.Attempt == js.Status.Restarts
}

// mayBePreflight says whether a JobSet has failed in a way that a check can have caused.
func mayBePreflight(js *jobset.JobSet) bool {
	if js == nil || js.Labels[trainer.LabelPreflight] == "" {
		return false
	}
	failed := meta.FindStatusCondition(js.Status.Conditions, string(jobset.JobSetFailed))
	return failed != nil && JobSetEnd(js) == failed && (failed.Reason == jobSetFailedByPolicy || failed.Reason == jobSetMaxRestarts)
}

// preflightCause is why a job has failed that a check has ended.
func preflightCause(found *trainer.PreflightStatus) Cause {
	message := "preflight: " + found.Message
	if len(found.Nodes) > 0 {
		message = fmt.Sprintf("preflight on node %s: %s", strings.Join(found.Nodes, ", "), found.Message)
	}
	return Cause{Reason: found.Reason, Message: message}
}

// AwaitsPreflight is how long the end of a job must wait because a check may have ended it
// whose report is not in the status yet; 0 if it need not. What has failed for good never
// changes, so the reason must be there first.
func AwaitsPreflight(job *trainer.TrainJob, js *jobset.JobSet, now time.Time) time.Duration {
	if Finished(job) || !mayBePreflight(js) || endedByPreflight(job, js) {
		return 0
	}
	if found := job.Status.Preflight; found != nil && found.Attempt == js.Status.Restarts && JobSetEnd(js).Reason == jobSetMaxRestarts {
		return 0 // the checks of this run were good
	}
	return max(0, JobSetEnd(js).LastTransitionTime.Add(preflightPatience).Sub(now))
}
