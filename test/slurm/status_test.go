package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	then = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	now  = metav1.NewTime(then.Add(time.Minute))
)

func condition(conditionType, status, reason string, since metav1.Time) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: "because", LastTransitionTime: since}
}

func TestConditionsAreReadFromATrainJob(t *testing.T) {
	trainJob := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"state": "Failed",
		"conditions": []any{map[string]any{
			"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "because", "lastTransitionTime": "2026-03-01T12:00:00Z",
		}},
	}}}
	got := conditionsOf(trainJob)
	if len(got) != 1 || got[0].Type != "Failed" || got[0].Reason != "DeadlineExceeded" || !got[0].LastTransitionTime.Time.Equal(then.Time) {
		t.Errorf("conditions %+v", got)
	}
	if !finished(trainJob) {
		t.Error("the job is not taken for finished")
	}
}

func TestOnlyQueuedAndEndedJobsHaveAConditionOfTheirState(t *testing.T) {
	healthy, suspended := condition("Healthy", "True", "Fine", then), condition("Suspended", "True", "S", then)
	cases := map[string]struct {
		before []metav1.Condition
		state  string
		want   []metav1.Condition
	}{
		"none while it runs":        {nil, "Running", nil},
		"that of the queue":         {nil, "Suspended", []metav1.Condition{condition("Suspended", "True", "R", now)}},
		"which stays since then":    {[]metav1.Condition{suspended}, "Suspended", []metav1.Condition{condition("Suspended", "True", "R", then)}},
		"and goes with the resume":  {[]metav1.Condition{suspended}, "Pending", []metav1.Condition{}},
		"that of the end":           {[]metav1.Condition{suspended}, "Complete", []metav1.Condition{condition("Complete", "True", "R", now)}},
		"others' stay as they are":  {[]metav1.Condition{healthy}, "Running", []metav1.Condition{healthy}},
		"others' stay at the end":   {[]metav1.Condition{healthy}, "Failed", []metav1.Condition{healthy, condition("Failed", "True", "R", now)}},
		"others' outlive the queue": {[]metav1.Condition{suspended, healthy}, "Running", []metav1.Condition{healthy}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, entered(tc.before, tc.state, "R", "because", now)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
