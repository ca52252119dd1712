package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// A check that lets everything pass would make every figure worthless.
func TestRightJobSet(t *testing.T) {
	node := func(js *jobset.JobSet) *corev1.Container {
		return &js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0]
	}
	for name, tc := range map[string]struct {
		spoil func(**jobset.JobSet)
		wrong string
	}{
		"what is rendered is right":             {func(**jobset.JobSet) {}, ""},
		"none is wrong":                         {func(js **jobset.JobSet) { *js = nil }, "has no JobSet"},
		"another job's is wrong":                {func(js **jobset.JobSet) { (*js).OwnerReferences[0].UID = "other" }, "does not belong"},
		"nobody's is wrong":                     {func(js **jobset.JobSet) { (*js).OwnerReferences = nil }, "does not belong"},
		"one without the trainer job is wrong":  {func(js **jobset.JobSet) { (*js).Spec.ReplicatedJobs = nil }, "has no job"},
		"one with too few nodes is wrong":       {func(js **jobset.JobSet) { (*js).Spec.ReplicatedJobs[0].Template.Spec.Parallelism = ptr.To[int32](1) }, "2 nodes"},
		"one that runs something else is wrong": {func(js **jobset.JobSet) { node(*js).Image = "other" }, "runs other"},
		"one with other arguments is wrong":     {func(js **jobset.JobSet) { node(*js).Args = nil }, "runs " + jobImage},
		"one without its variables is wrong":    {func(js **jobset.JobSet) { node(*js).Env = nil }, "lacks"},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobOf("ns", "job", 7)
			job.UID = "uid"
			objects, err := render.Render(job, render.FromSnapshot(runtimesnapshot.FromClusterTrainingRuntime(runtimeOf(job.Spec.RuntimeRef.Name))))
			if err != nil {
				t.Fatal(err)
			}
			js := objects.JobSet
			tc.spoil(&js)
			says(t, rightJobSet(job, js), tc.wrong)
		})
	}
}

func TestRightSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(**corev1.ConfigMap)
		wrong string
	}{
		"what is encoded is right": {func(**corev1.ConfigMap) {}, ""},
		"none is wrong":            {func(cm **corev1.ConfigMap) { *cm = nil }, "has no snapshot"},
		"another job's is wrong":   {func(cm **corev1.ConfigMap) { (*cm).OwnerReferences[0].UID = "other" }, "does not belong"},
		"one of nothing is wrong":  {func(cm **corev1.ConfigMap) { (*cm).Data = nil }, "has no key"},
		"another runtime's is wrong": {func(cm **corev1.ConfigMap) {
			(*cm).Data[runtimesnapshot.DataKey] = strings.ReplaceAll((*cm).Data[runtimesnapshot.DataKey], "bench-", "other-")
		}, "holds runtime other-"},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobOf("ns", "job", 7)
			job.UID = "uid"
			cm, err := runtimesnapshot.Encode(job, runtimesnapshot.FromClusterTrainingRuntime(runtimeOf(job.Spec.RuntimeRef.Name)))
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(&cm)
			says(t, rightSnapshot(job, cm), tc.wrong)
		})
	}
}

func says(t *testing.T, err error, wrong string) {
	t.Helper()
	switch {
	case wrong == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
		t.Errorf("got %v, want an error with %q", err, wrong)
	}
}
