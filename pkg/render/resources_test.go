package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestTheOtherSideOfAResourceFollowsOnlyWhereItMust(t *testing.T) {
	of := func(name, quantity string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(quantity)}
	}
	for name, c := range map[string]struct {
		base, over, want corev1.ResourceRequirements
	}{
		"a device that is requested is limited": {
			over: corev1.ResourceRequirements{Requests: of("nvidia.com/gpu", "2")},
			want: corev1.ResourceRequirements{Requests: of("nvidia.com/gpu", "2"), Limits: of("nvidia.com/gpu", "2")}},
		"a device is requested as it is limited": {
			base: corev1.ResourceRequirements{Requests: of("nvidia.com/gpu", "2"), Limits: of("nvidia.com/gpu", "2")},
			over: corev1.ResourceRequirements{Requests: of("nvidia.com/gpu", "1")},
			want: corev1.ResourceRequirements{Requests: of("nvidia.com/gpu", "1"), Limits: of("nvidia.com/gpu", "1")}},
		"so are huge pages": {
			over: corev1.ResourceRequirements{Requests: of("hugepages-2Mi", "4Mi")},
			want: corev1.ResourceRequirements{Requests: of("hugepages-2Mi", "4Mi"), Limits: of("hugepages-2Mi", "4Mi")}},
		"a resource of Kubernetes needs no limit": {
			over: corev1.ResourceRequirements{Requests: of("kubernetes.io/a", "2")},
			want: corev1.ResourceRequirements{Requests: of("kubernetes.io/a", "2")}},
		"and may be requested below it": {
			base: corev1.ResourceRequirements{Limits: of("x.kubernetes.io/a", "2")},
			over: corev1.ResourceRequirements{Requests: of("x.kubernetes.io/a", "1")},
			want: corev1.ResourceRequirements{Requests: of("x.kubernetes.io/a", "1"), Limits: of("x.kubernetes.io/a", "2")}},
		"but not above it": {
			base: corev1.ResourceRequirements{Limits: of("x.kubernetes.io/a", "2")},
			over: corev1.ResourceRequirements{Requests: of("x.kubernetes.io/a", "3")},
			want: corev1.ResourceRequirements{Requests: of("x.kubernetes.io/a", "3"), Limits: of("x.kubernetes.io/a", "3")}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.base
			mergeResources(&got, &c.over)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
