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

func TestOneStateConditionIsTrue(t *testing.T) {
	healthy := condition("Healthy", "True", "Fine", then)
	cases := map[string]struct {
		before, want []metav1.Condition
	}{
		"the first one":             {nil, []metav1.Condition{condition("Running", "True", "R", now)}},
		"another takes its place":   {[]metav1.Condition{condition("Pending", "True", "P", then)}, []metav1.Condition{condition("Pending", "False", "R", now), condition("Running", "True", "R", now)}},
		"it stays as it is":         {[]metav1.Condition{condition("Running", "True", "R", then)}, nil},
		"for another reason":        {[]metav1.Condition{condition("Running", "True", "Q", then)}, []metav1.Condition{condition("Running", "True", "R", then)}},
		"others' stay as they are":  {[]metav1.Condition{healthy}, []metav1.Condition{healthy, condition("Running", "True", "R", now)}},
		"those left before stay so": {[]metav1.Condition{condition("Suspended", "False", "Resumed", then), condition("Running", "True", "R", then)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, changed := entered(tc.before, "Running", "R", "because", now)
			if changed != (tc.want != nil) {
				t.Fatalf("changed: %t", changed)
			}
			if diff := cmp.Diff(tc.want, got); changed && diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
