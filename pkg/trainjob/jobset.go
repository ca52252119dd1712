package trainjob

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// JobSetSuspended says whether a JobSet is told to hold its jobs back.
func JobSetSuspended(js *jobset.JobSet) bool {
	return ptr.Deref(js.Spec.Suspend, false)
}

// JobSetHeldBack says whether a JobSet that was told to hold its jobs back has done so.
// Resumed earlier, it would leave a Job that it has not suspended yet as it is, and
// with it pods without what has changed in the template.
func JobSetHeldBack(js *jobset.JobSet) bool {
	return meta.IsStatusConditionTrue(js.Status.Conditions, string(jobset.JobSetSuspended))
}

// JobSetEnd is the terminal condition of a JobSet, nil while it has none.
func JobSetEnd(js *jobset.JobSet) *metav1.Condition {
	if js == nil {
		return nil
	}
	for i := range js.Status.Conditions {
		c := &js.Status.Conditions[i]
		if c.Status != metav1.ConditionTrue {
			continue
		}
		if c.Type == string(jobset.JobSetCompleted) || c.Type == string(jobset.JobSetFailed) {
			return c
		}
	}
	return nil
}

// readyJob is the first of the mirrored jobs with a Job whose pods are all ready.
func readyJob(js *jobset.JobSet, jobs []trainer.JobStatus) (string, bool) {
	if js == nil || JobSetSuspended(js) {
		return "", false
	}
	for _, s := range jobs {
		if s.Ready > 0 {
			return s.Name, true
		}
	}
	return "", false
}

// RestartMessage says which attempt a JobSet is at, and why it was restarted as long as
// JobSet tells; "" before the first restart.
func RestartMessage(js *jobset.JobSet) string {
	if js == nil || js.Status.Restarts == 0 {
		return ""
	}
	message := fmt.Sprintf("attempt %d, after JobSet has restarted the job", js.Status.Restarts+1)
	if c := meta.FindStatusCondition(js.Status.Conditions, string(jobset.JobSetRestarting)); c != nil && c.Status == metav1.ConditionTrue {
		message += ": " + c.Message
	}
	return message
}

// waitingMessage says what is waited for, and at which attempt.
func waitingMessage(js *jobset.JobSet, jobs []trainer.JobStatus) string {
	message := waitingFor(js, jobs)
	if attempt := RestartMessage(js); attempt != "" {
		message += " (" + attempt + ")"
	}
	return message
}

// waitingFor names the job, out of the mirrored ones, whose pods are waited for.
func waitingFor(js *jobset.JobSet, jobs []trainer.JobStatus) string {
	if js == nil {
		return "the JobSet is about to be created"
	}
	// A Job with pods that are not ready is what holds everything up. If there is
	// none, it is the first that has not begun.
	begun, waiting := "", ""
	for _, s := range jobs {
		switch {
		case begun == "" && s.Active > 0:
			begun = s.Name
		case waiting == "" && s.Active == 0 && s.Succeeded == 0 && s.Failed == 0:
			waiting = s.Name
		}
	}
	switch {
	case begun != "":
		return fmt.Sprintf("waiting for the pods of job %q to be ready", begun)
	case waiting != "":
		return fmt.Sprintf("waiting for job %q to start; if that lasts, the events of JobSet %q and of its Jobs say why", waiting, js.Name)
	}
	return fmt.Sprintf("waiting for the JobSet to start its jobs; if that lasts, the events of JobSet %q say why", js.Name)
}
