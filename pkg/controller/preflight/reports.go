package preflight

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// restartAttempt is the label in which JobSet counts the restarts of a job.
const restartAttempt = "jobset.sigs.k8s.io/restart-attempt"

// ranked is what preflight said in one pod, and where that was.
type ranked struct {
	pod      types.UID
	name     string
	node     string
	rank     string
	attempt  int32
	finished time.Time
	exit     int32
	outcome  report.Outcome
	// faulty: the node itself is at fault.
	faulty          bool
	reason, message string
}

// reasonCrashed is of a container that ended without a report.
const reasonCrashed = "PreflightCrashed"

// reports are those of a job's pods in their latest run. A pod whose preflight has not
// ended, or was ended by a signal, has none.
func reports(pods []*corev1.Pod) []ranked {
	var all []ranked
	latest := int32(0)
	for _, pod := range pods {
		latest = max(latest, attemptOf(pod))
	}
	for _, pod := range pods {
		if attemptOf(pod) != latest {
			continue
		}
		if r, ok := reportOf(pod); ok {
			all = append(all, r)
		}
	}
	return all
}

func attemptOf(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Labels[restartAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func reportOf(pod *corev1.Pod) (ranked, bool) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if status.Name != trainer.ContainerPreflight {
			continue
		}
		ended := status.State.Terminated
		if ended == nil {
			ended = status.LastTerminationState.Terminated // it is tried again
		}
		if ended == nil || ended.ExitCode == report.ExitSignal {
			return ranked{}, false
		}
		r := ranked{
			pod: pod.UID, name: pod.Name, node: pod.Spec.NodeName, rank: pod.Annotations[batchv1.JobCompletionIndexAnnotation],
			attempt: attemptOf(pod), finished: ended.FinishedAt.Time, exit: ended.ExitCode,
		}
		r.read(ended)
		return r, true
	}
	return ranked{}, false
}

// conditionReason is what a report may give as a reason: it becomes that of a condition.
var conditionReason = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,127}$`)

// longestMessage keeps room in a status for a message of anybody.
const longestMessage = 1024

// read takes the report out of the termination message. The exit code has the last word:
// it is what Kubernetes acts on.
func (r *ranked) read(ended *corev1.ContainerStateTerminated) {
	r.outcome = outcomeOf(ended.ExitCode)
	said, err := report.Parse([]byte(ended.Message))
	if err != nil || !conditionReason.MatchString(said.Reason) {
		if ended.ExitCode == report.ExitPass {
			r.reason = report.ReasonPassed
			return
		}
		r.reason = reasonCrashed
		r.message = clipped(strings.TrimSpace(fmt.Sprintf("no report, exit code %d (%s) %s", ended.ExitCode, ended.Reason, ended.Message)))
		return
	}
	r.reason, r.message = said.Reason, clipped(said.Message)
	if ended.ExitCode == report.ExitPass && said.Outcome.Worse(report.Pass) {
		r.outcome = report.Warning // report-only: it went on in spite of it
	}
	for _, check := range said.Checks {
		r.faulty = r.faulty || check.Outcome == report.Reschedule && check.Scope == report.ScopeNode
	}
}

func outcomeOf(exit int32) report.Outcome {
	switch exit {
	case report.ExitPass:
		return report.Pass
	case report.ExitRetry:
		return report.Retryable
	case report.ExitReschedule:
		return report.Reschedule
	}
	return report.Fatal
}

func clipped(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= longestMessage {
		return text
	}
	return strings.ToValidUTF8(text[:longestMessage-3], "") + "..."
}

// ofJobSet tells whether a pod is one of that JobSet, and not of an earlier one of its name.
func ofJobSet(pod *corev1.Pod, js *jobset.JobSet) bool {
	uid, known := pod.Labels[jobset.JobSetUIDKey]
	return pod.Labels[jobset.JobSetNameKey] == js.Name && (!known || uid == string(js.UID))
}
