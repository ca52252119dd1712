package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	corefake "k8s.io/client-go/kubernetes/fake"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// trainJob has a SlurmRuntime and is in a state.
func trainJob(state, reason string, suspend bool) *unstructured.Unstructured {
	conditions := []any{}
	if state == "Suspended" || state == "Complete" || state == "Failed" {
		conditions = append(conditions, map[string]any{
			"type": state, "status": "True", "reason": reason, "message": "because", "lastTransitionTime": "2026-03-01T12:00:00Z",
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "a-uid", "resourceVersion": "1"},
		"spec": map[string]any{
			"runtimeRef": map[string]any{"apiGroup": "slurm.example.com", "kind": "SlurmRuntime", "name": "big"},
			"managedBy":  "trainer.kubeflow.org/trainjob-controller", "suspend": suspend,
		},
		"status": map[string]any{
			"state": state, "reason": reason, "message": "because", "startTime": "2026-03-01T12:00:00Z",
			"conditions": conditions,
		},
	}}
}

func jobOf(owner *unstructured.Unstructured, ready int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "default", UID: "job-uid", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
		},
		Status: batchv1.JobStatus{Active: 2, Ready: ptr.To(ready)},
	}
}

func TestSyncWritesOnlyWhatIsNews(t *testing.T) {
	completed := func(job *batchv1.Job) *batchv1.Job {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}
		return job
	}
	waiting := trainJob("Pending", "WaitingForRuntime", false)
	unstructured.RemoveNestedField(waiting.Object, "status", "startTime")
	running := trainJob("Running", "BatchRunning", false)
	cases := map[string]struct {
		trainJob *unstructured.Unstructured
		job      *batchv1.Job
		want     []string
	}{
		"nothing before it has the job":       {waiting, nil, nil},
		"nothing when nothing has changed":    {running, jobOf(running, 2), nil},
		"that the pods run":                   {trainJob("Pending", "BatchQueued", false), jobOf(running, 2), []string{"patch trainjobs"}},
		"that it is its turn now":             {trainJob("Pending", "ExternalRuntime", false), jobOf(running, 0), []string{"patch trainjobs"}},
		"the end":                             {running, completed(jobOf(running, 0)), []string{"patch trainjobs"}},
		"the Job's suspension first":          {trainJob("Running", "BatchRunning", true), jobOf(running, 2), []string{"patch jobs"}},
		"the Job's end after the deadline":    {trainJob("Failed", "DeadlineExceeded", false), jobOf(running, 2), []string{"delete jobs"}},
		"nothing about a job that has ended":  {trainJob("Complete", "BatchCompleted", false), completed(jobOf(running, 0)), nil},
		"nothing about one without a Job":     {trainJob("Failed", "DeadlineExceeded", false), nil, nil},
		"that it is suspended before it runs": {trainJob("Pending", "BatchQueued", true), nil, []string{"patch trainjobs"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			trainJobs, jobs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			dynamic, core := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), tc.trainJob), corefake.NewClientset()
			if err := trainJobs.Add(tc.trainJob); err != nil {
				t.Fatal(err)
			}
			if tc.job != nil {
				if err := jobs.Add(tc.job); err != nil {
					t.Fatal(err)
				}
				if err := core.Tracker().Add(tc.job); err != nil {
					t.Fatal(err)
				}
			}
			b := &builder{dynamic: dynamic, core: core, trainJobs: cache.NewGenericLister(trainJobs, trainJobsResource.GroupResource()), jobs: batchlisters.NewJobLister(jobs)}
			if err := b.sync(t.Context(), cache.NewObjectName("default", "a")); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, action := range append(append([]clienttesting.Action{}, dynamic.Actions()...), core.Actions()...) {
				got = append(got, action.GetVerb()+" "+action.GetResource().Resource)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
