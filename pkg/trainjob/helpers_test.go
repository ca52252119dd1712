package trainjob

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// verdict is the state of a job, and why.
type verdict struct {
	State           trainer.TrainJobState
	Reason, Message string
}

// verdictOf reads the verdict out of a status and fails the test unless its conditions
// say the same.
func verdictOf(t *testing.T, status *trainer.TrainJobStatus) verdict {
	t.Helper()
	if wrong := contradiction(status); wrong != "" {
		t.Fatal(wrong)
	}
	return verdict{status.State, status.Reason, status.Message}
}

// contradiction says how the conditions of our types break what is promised of them: none
// for a job that waits or runs, else the one of the state, with its reason and message
// and without an observedGeneration.
func contradiction(status *trainer.TrainJobStatus) string {
	var want, got []string
	switch status.State {
	case trainer.TrainJobSuspended, trainer.TrainJobComplete, trainer.TrainJobFailed:
		want = append(want, fmt.Sprintf("%s=True %s: %s, generation 0", status.State, status.Reason, status.Message))
	}
	for _, c := range status.Conditions {
		if isState(c.Type) {
			got = append(got, fmt.Sprintf("%s=%s %s: %s, generation %d", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration))
		}
	}
	return cmp.Diff(want, got)
}

func isState(conditionType string) bool {
	return slices.Contains(conditionTypes, trainer.TrainJobState(conditionType))
}

// lines writes what a status says of its state so that a test can list it: state, reason,
// and the second after the epoch at which it was entered; the conditions; the last resume.
func lines(status *trainer.TrainJobStatus) []string {
	second := func(at metav1.Time) int { return int(at.Sub(builders.Epoch) / time.Second) }
	var out []string
	if status.LastTransitionTime != nil {
		out = append(out, fmt.Sprintf("%s %s @%d", status.State, status.Reason, second(*status.LastTransitionTime)))
	}
	for _, c := range status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s @%d", c.Type, c.Status, c.Reason, second(c.LastTransitionTime)))
	}
	if status.ResumeTime != nil {
		out = append(out, fmt.Sprintf("resumed @%d", second(*status.ResumeTime)))
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
