package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestOnlyPodsWithPreflightAreLabelled(t *testing.T) {
	for name, checked := range map[string]bool{"preflight": true, "other": false} {
		runtime := preflightRuntime()
		for i := range runtime.Spec.Template.Spec.ReplicatedJobs {
			pod := podOf(&runtime.Spec.Template.Spec.ReplicatedJobs[i])
			pod.InitContainers = nil
			if i == 0 {
				pod.InitContainers = []corev1.Container{{Name: name, Image: "check"}}
			}
		}
		js := mustRender(t, trainJob(), runtime).JobSet
		if got := js.Labels[v1alpha1.LabelPreflight] == "preflight"; got != checked {
			t.Errorf("%s: the JobSet is labelled: %v", name, got)
		}
		first := runtime.Spec.Template.Spec.ReplicatedJobs[0].Name
		for _, rjob := range js.Spec.ReplicatedJobs {
			want := checked && rjob.Name == first
			if got := rjob.Template.Spec.Template.Labels[v1alpha1.LabelPreflight] == "preflight"; got != want {
				t.Errorf("%s: the pods of %s are labelled: %v", name, rjob.Name, got)
			}
		}
	}
}
