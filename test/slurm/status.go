package main

import (
	"context"
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func finished(trainJob *unstructured.Unstructured) bool {
	for _, c := range conditionsOf(trainJob) {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

func conditionsOf(trainJob *unstructured.Unstructured) []metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	raw, _, _ := unstructured.NestedMap(trainJob.Object, "status")
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status) // of an object that the API server has validated
	return status.Conditions
}

func jobHas(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// stateOf is the state that a TrainJob is in by its Job.
func stateOf(job *batchv1.Job, suspended bool) (state, reason, message string) {
	switch {
	case job != nil && jobHas(job, batchv1.JobComplete):
		return "Complete", "BatchCompleted", "the batch has completed"
	case job != nil && jobHas(job, batchv1.JobFailed):
		return "Failed", "BatchFailed", "the batch has failed"
	case suspended:
		return "Suspended", "Suspended", "spec.suspend is true"
	case job != nil && ptr.Deref(job.Status.Ready, 0) > 0:
		return "Running", "BatchRunning", "the batch is running"
	}
	return "Pending", "BatchQueued", "the batch is queued"
}

// report writes the state of a TrainJob if it is another one than before: one patch of
// state, conditions and counters, that fails if somebody else was faster.
func (b *builder) report(ctx context.Context, trainJob *unstructured.Unstructured, job *batchv1.Job, suspended bool) error {
	state, reason, message := stateOf(job, suspended)
	was, _, _ := unstructured.NestedString(trainJob.Object, "status", "state")
	because, _, _ := unstructured.NestedString(trainJob.Object, "status", "reason")
	if was == state && because == reason {
		return nil
	}
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	status := map[string]any{
		"state": state, "reason": reason, "message": message, "conditions": entered(conditionsOf(trainJob), state, reason, message, now),
	}
	if was != state {
		status["lastTransitionTime"] = now
	}
	if was == "Suspended" && (state == "Pending" || state == "Running") {
		status["resumeTime"] = now
	}
	if state == "Complete" || state == "Failed" {
		status["completionTime"] = now
	}
	if job != nil {
		status["jobsStatus"] = []map[string]any{{
			"name": "batch", "active": job.Status.Active, "ready": ptr.Deref(job.Status.Ready, 0),
			"succeeded": job.Status.Succeeded, "failed": job.Status.Failed, "suspended": 0,
		}}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": trainJob.GetResourceVersion(), "uid": trainJob.GetUID()},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = b.dynamic.Resource(trainJobsResource).Namespace(trainJob.GetNamespace()).Patch(ctx, trainJob.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// entered is the conditions of a job in a state: that of the state, if it is one of those
// that are conditions too, and those of others.
func entered(conditions []metav1.Condition, state, reason, message string, now metav1.Time) []metav1.Condition {
	for _, t := range []string{"Suspended", "Complete", "Failed"} {
		if t != state {
			meta.RemoveStatusCondition(&conditions, t)
			continue
		}
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: state, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now,
		})
	}
	return conditions
}
