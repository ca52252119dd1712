package trainjob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Cause is why a job is in a state: a CamelCase reason and a sentence.
type Cause struct {
	Reason  string
	Message string
}

// Observed is what a controller saw before it asks for the next status. The zero
// value says: no JobSet of this job exists and nothing is wrong.
type Observed struct {
	// JobSet of this very job, nil if there is none. Only metadata, spec.suspend and
	// status are read.
	JobSet *jobset.JobSet
	// Blocked is what keeps the job from running, nil if nothing does.
	Blocked *Cause
	// Failure ends the job, unless its JobSet has ended by itself.
	Failure *Cause
	// Snapshot in use, nil to keep what the status says.
	Snapshot *trainer.RuntimeSnapshotReference
	// Nodes is the number of training nodes, nil to keep what the status says.
	Nodes *int32
}

// conditionTypes are those that this controller has ever written: Pending and Running
// only in earlier builds.
var conditionTypes = []trainer.TrainJobState{
	trainer.TrainJobPending, trainer.TrainJobSuspended, trainer.TrainJobRunning,
	trainer.TrainJobComplete, trainer.TrainJobFailed,
}

// Next is the status the job must have after what was observed at `now`. For a
// finished job only jobsStatus can differ from what the job says already, and nothing
// for one that had finished before this controller first saw it.
func Next(job *trainer.TrainJob, seen Observed, now time.Time) *trainer.TrainJobStatus {
	next := job.Status.DeepCopy()
	if Inherited(job) && Finished(job) {
		return next
	}
	if External(job) {
		seen.JobSet = nil // whatever it is, it is its builder's, and so are the counters
	} else {
		next.JobsStatus = mirror(job.Status.JobsStatus, seen.JobSet)
	}
	if terminal := terminalCondition(job); terminal != nil {
		if next.State != trainer.TrainJobState(terminal.Type) {
			// Another writer has changed or dropped it.
			next.State, next.Reason, next.Message = trainer.TrainJobState(terminal.Type), terminal.Reason, terminal.Message
		}
		return next
	}

	stamp := metav1.NewTime(now).Rfc3339Copy()
	if next.Lifecycle == nil {
		limits := Limits(job)
		next.Lifecycle = &limits
	}
	if seen.Snapshot != nil {
		next.RuntimeSnapshot = seen.Snapshot
	}
	if seen.Nodes != nil {
		next.Nodes = seen.Nodes
	}
	if next.StartTime == nil && starts(job, seen) {
		next.StartTime = &stamp
	}
	if HandedOver(job) && seen.Failure == nil {
		return next // its builder says what state it is in
	}

	if seen.JobSet != nil {
		next.Restarts = max(next.Restarts, seen.JobSet.Status.Restarts)
	}
	state, cause := judge(job, seen, next.JobsStatus)
	if state != trainer.TrainJobComplete && state != trainer.TrainJobFailed {
		next.ResumeTime = resumeTime(job, stamp)
	}
	enter(next, state, cause, stamp)
	return next
}

// starts says whether a job runs for the first time: its JobSet is not held back, or
// nothing is left in the way of its builder.
func starts(job *trainer.TrainJob, seen Observed) bool {
	if External(job) {
		return HandedOver(job) || (seen.Failure == nil && seen.Blocked == nil && !Suspended(job))
	}
	return seen.JobSet != nil && !JobSetSuspended(seen.JobSet)
}

// judge picks the one state of a job that has not finished. The first rule that
// applies decides. `jobs` are the mirrored counters: their order is stable, so that the
// job named in a message is too.
func judge(job *trainer.TrainJob, seen Observed, jobs []trainer.JobStatus) (trainer.TrainJobState, Cause) {
	if end := JobSetEnd(seen.JobSet); end != nil {
		state := trainer.TrainJobFailed
		if end.Type == string(jobset.JobSetCompleted) {
			state = trainer.TrainJobComplete
		}
		if endedByPreflight(job, seen.JobSet) {
			return state, preflightCause(job.Status.Preflight)
		}
		return state, Cause{Reason: end.Reason, Message: end.Message}
	}
	if seen.Failure != nil {
		return trainer.TrainJobFailed, *seen.Failure
	}
	if Suspended(job) {
		return trainer.TrainJobSuspended, Cause{trainer.ReasonSuspended, suspendedMessage(seen.Blocked)}
	}
	if name, ok := readyJob(seen.JobSet, jobs); ok {
		return trainer.TrainJobRunning, Cause{trainer.ReasonPodsReady, fmt.Sprintf("all pods of job %q are ready", name)}
	}
	if seen.Blocked != nil {
		return trainer.TrainJobPending, *seen.Blocked
	}
	if External(job) {
		kind := RuntimeKind(job)
		return trainer.TrainJobPending, Cause{trainer.ReasonExternalRuntime, fmt.Sprintf("the job is left to the builder of %s, which has not said anything yet", kind)}
	}
	return trainer.TrainJobPending, Cause{trainer.ReasonWaitingForPods, waitingMessage(seen.JobSet, jobs)}
}

// suspendedMessage tells a suspended job's user in time what will be in the way.
func suspendedMessage(blocked *Cause) string {
	if blocked == nil {
		return "spec.suspend is true"
	}
	return fmt.Sprintf("spec.suspend is true; when resumed the job will be Pending for %s: %s", blocked.Reason, blocked.Message)
}

// enter makes `state` the job's state. Only a queue's state and the two ends are
// conditions as well; what earlier builds had as conditions goes.
func enter(status *trainer.TrainJobStatus, state trainer.TrainJobState, cause Cause, stamp metav1.Time) {
	if status.State != state || status.LastTransitionTime == nil {
		status.LastTransitionTime = &stamp
	}
	status.State, status.Reason, status.Message = state, cause.Reason, fitting(cause.Message)
	isCondition := state != trainer.TrainJobPending && state != trainer.TrainJobRunning
	for _, t := range conditionTypes {
		if t != state || !isCondition {
			meta.RemoveStatusCondition(&status.Conditions, string(t))
		}
	}
	if isCondition {
		setCondition(status, stamp)
	}
	if state == trainer.TrainJobRunning && status.FirstRunningTime == nil {
		status.FirstRunningTime = &stamp
	}
	if state == trainer.TrainJobComplete || state == trainer.TrainJobFailed {
		status.CompletionTime = &stamp
	}
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
}

// setCondition makes the state a True condition. It has no observedGeneration: the
// generation of a finished job can still grow, and `kubectl wait` would take the
// condition for an old one.
func setCondition(status *trainer.TrainJobStatus, stamp metav1.Time) {
	// Keeps LastTransitionTime when the condition was True already.
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: string(status.State), Status: metav1.ConditionTrue, Reason: status.Reason, Message: status.Message,
		LastTransitionTime: stamp,
	})
}

// maxMessage is the most that a condition's message can hold.
const maxMessage = 32768

// fitting cuts a message that the API would refuse: an error of an API server may quote
// a whole object back.
func fitting(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const dots = "..."
	return strings.ToValidUTF8(message[:maxMessage-len(dots)], "") + dots
}

// mirror copies the counters of a JobSet. Without a JobSet the known jobs count zero,
// because nothing of theirs is left: Kueue waits for that.
func mirror(old []trainer.JobStatus, js *jobset.JobSet) []trainer.JobStatus {
	if js == nil {
		gone := slices.Clone(old)
		for i := range gone {
			gone[i] = trainer.JobStatus{Name: gone[i].Name}
		}
		return gone
	}
	if len(js.Status.ReplicatedJobsStatus) == 0 {
		// Just created; its controller has not counted yet.
		return mirror(old, nil)
	}
	counted := make([]trainer.JobStatus, 0, len(js.Status.ReplicatedJobsStatus))
	for _, s := range js.Status.ReplicatedJobsStatus {
		counted = append(counted, trainer.JobStatus{
			Name: s.Name, Ready: s.Ready, Succeeded: s.Succeeded, Failed: s.Failed, Active: s.Active, Suspended: s.Suspended,
		})
	}
	return inOrderOf(old, append(counted, leftOut(js)...))
}

// leftOut are the jobs of the runtime that the JobSet does without. They count as
// succeeded: who reserves room by the runtime, as Kueue does, would wait for their pods
// for ever, and gives the room back for what has succeeded.
func leftOut(js *jobset.JobSet) []trainer.JobStatus {
	names := js.Annotations[trainer.AnnotationLeftOutJobs]
	if names == "" {
		return nil
	}
	var all []trainer.JobStatus
	for name := range strings.SplitSeq(names, ",") {
		all = append(all, trainer.JobStatus{Name: name, Succeeded: 1})
	}
	return all
}

// inOrderOf keeps the order of the entries that are already in the status: a JobSet's
// controller may list its jobs in another order each time, which is no news.
func inOrderOf(old, counted []trainer.JobStatus) []trainer.JobStatus {
	position := func(name string) int {
		if i := slices.IndexFunc(old, func(s trainer.JobStatus) bool { return s.Name == name }); i >= 0 {
			return i
		}
		return len(old)
	}
	slices.SortStableFunc(counted, func(a, b trainer.JobStatus) int { return position(a.Name) - position(b.Name) })
	return counted
}
