package informer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfPodsOnlyOneInitContainerIsKept(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 30, Message: "{}"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "x", UID: "1", ResourceVersion: "2", Labels: map[string]string{"l": "v"},
			Annotations:   map[string]string{batchv1.JobCompletionIndexAnnotation: "3", "large": "thing"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "node"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "other", State: ended}, {Name: "preflight", State: ended, ImageID: "long"}}},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "x", UID: "1", ResourceVersion: "2", Labels: map[string]string{"l": "v"},
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: "3"},
		},
		Spec:   corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "preflight", State: ended}}},
	}
	TrimPod("preflight")(pod)
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	other := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
	if TrimPod("preflight")(other); other.Data["a"] != "b" {
		t.Error("a ConfigMap was trimmed")
	}
}
