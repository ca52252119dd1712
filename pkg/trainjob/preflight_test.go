package trainjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// checkedJobSet has failed at second 10, in its second run.
func checkedJobSet(reason string) *jobset.JobSet {
	return &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{trainer.LabelPreflight: trainer.ContainerPreflight}},
		Status: jobset.JobSetStatus{Restarts: 1, Conditions: []metav1.Condition{{
			Type: string(jobset.JobSetFailed), Status: metav1.ConditionTrue, Reason: reason, Message: "of JobSet", LastTransitionTime: metav1.NewTime(builders.At(10)),
		}}},
	}
}

func foundBy(outcome string, attempt int32) *trainer.PreflightStatus {
	return &trainer.PreflightStatus{Outcome: outcome, Reason: "GPULost", Message: "gpu: lost", Nodes: []string{"n1"}, Attempt: attempt}
}

func TestAJobThatACheckHasEndedSaysWhy(t *testing.T) {
	const policy, restarts = "FailJobSetFailurePolicyAction", "ReachedMaxRestarts"
	unchecked := checkedJobSet(policy)
	unchecked.Labels = nil
	completed := checkedJobSet(policy)
	completed.Status.Conditions[0].Type = string(jobset.JobSetCompleted)
	cases := map[string]struct {
		found   *trainer.PreflightStatus
		js      *jobset.JobSet
		reason  string
		message string
		waits   time.Duration
	}{
		"a check stopped it":                      {found: foundBy("Fatal", 1), js: checkedJobSet(policy), reason: "GPULost", message: "preflight on node n1: gpu: lost"},
		"restarts did not help":                   {found: foundBy("Reschedule", 1), js: checkedJobSet(restarts), reason: "GPULost", message: "preflight on node n1: gpu: lost"},
		"the report is on its way":                {js: checkedJobSet(policy), reason: policy, message: "of JobSet", waits: 3 * time.Second},
		"the report is of the run before":         {found: foundBy("Reschedule", 0), js: checkedJobSet(policy), reason: policy, message: "of JobSet", waits: 3 * time.Second},
		"the checks were good, the training not":  {found: foundBy("Pass", 1), js: checkedJobSet(restarts), reason: restarts, message: "of JobSet"},
		"good news, and the bad are on their way": {found: foundBy("Warning", 1), js: checkedJobSet(policy), reason: policy, message: "of JobSet", waits: 3 * time.Second},
		"it failed for another reason":            {found: foundBy("Fatal", 1), js: checkedJobSet("FailedJobs"), reason: "FailedJobs", message: "of JobSet"},
		"a JobSet without checks":                 {js: unchecked, reason: policy, message: "of JobSet"},
		"it completed":                            {js: completed, reason: policy, message: "of JobSet"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			job.Status.Preflight = tc.found
			if got := AwaitsPreflight(job, tc.js, builders.At(12)); got != tc.waits {
				t.Errorf("it waits %s, want %s", got, tc.waits)
			}
			if got := AwaitsPreflight(job, tc.js, builders.At(16)); got != 0 {
				t.Errorf("it still waits %s", got)
			}
			next := Next(job, Observed{JobSet: tc.js}, builders.At(16))
			if next.Reason != tc.reason || next.Message != tc.message {
				t.Errorf("%s: %s; want %s: %s", next.Reason, next.Message, tc.reason, tc.message)
			}
		})
	}
}

func TestAJobThatHasEndedKeepsItsReport(t *testing.T) {
	job := builders.TrainJob("a", builders.State(trainer.TrainJobFailed, "GPULost", builders.At(1)))
	job.Status.Preflight = foundBy("Fatal", 0)
	if next := WithPreflight(job, foundBy("Pass", 1)); Compare(job, next) != Same {
		t.Errorf("it is %+v", next.Preflight)
	}
	if next := WithPreflight(builders.TrainJob("b"), nil); next.Preflight != nil {
		t.Errorf("it is %+v", next.Preflight)
	}
}
