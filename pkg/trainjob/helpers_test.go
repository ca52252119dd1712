package trainjob

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// verdict is the state a status names, with the reason and message of its condition.
type verdict struct {
	State           trainer.TrainJobState
	Reason, Message string
}

// verdictOf reads the verdict out of a status and fails the test unless exactly one
// state condition is True and status.state names it.
func verdictOf(t *testing.T, status *trainer.TrainJobStatus) verdict {
	t.Helper()
	var found []verdict
	for _, c := range status.Conditions {
		if isState(c.Type) && c.Status == metav1.ConditionTrue {
			found = append(found, verdict{trainer.TrainJobState(c.Type), c.Reason, c.Message})
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d state conditions are True, want 1: %v", len(found), found)
	}
	if found[0].State != status.State {
		t.Fatalf("status.state is %q but the condition that is True is %q", status.State, found[0].State)
	}
	return found[0]
}

func isState(conditionType string) bool {
	for _, s := range states {
		if string(s) == conditionType {
			return true
		}
	}
	return false
}

// lines writes conditions so that a test can list them: type, status, reason, and the
// second after the epoch at which the status changed.
func lines(conditions []metav1.Condition) []string {
	var out []string
	for _, c := range conditions {
		since := c.LastTransitionTime.Sub(builders.Epoch) / time.Second
		out = append(out, fmt.Sprintf("%s=%s %s @%d", c.Type, c.Status, c.Reason, since))
	}
	return out
}

// step applies what is observed at a second after the epoch to the job itself.
func step(job *trainer.TrainJob, second int, seen Observed) *trainer.TrainJob {
	next := job.DeepCopy()
	next.Status = *Next(job, seen, builders.At(second))
	return next
}

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
