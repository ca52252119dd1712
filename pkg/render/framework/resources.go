package framework

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// GPUs counts the GPUs of a container: the sum over the extended resources that
// stand for whole devices or partitions of one. Shares of a device, such as
// gpumem or gpucores, say how much of a GPU is used and never how many.
func GPUs(resources *corev1.ResourceRequirements) int64 {
	var sum int64
	for name, quantity := range resources.Limits {
		if isGPU(name) {
			sum += quantity.Value()
		}
	}
	for name, quantity := range resources.Requests {
		if _, limited := resources.Limits[name]; !limited && isGPU(name) {
			sum += quantity.Value()
		}
	}
	return sum
}

func isGPU(name corev1.ResourceName) bool {
	domain, kind, found := strings.Cut(string(name), "/")
	if !found || domain == "" {
		return false
	}
	return kind == "gpu" || kind == "gpu.shared" || strings.HasPrefix(kind, "mig-")
}

// CPUs is the number of CPUs of a container rounded up, at least 1. The limit counts
// where there is one: it is what the processes may use at most.
func CPUs(resources *corev1.ResourceRequirements) int64 {
	for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
		if quantity, found := list[corev1.ResourceCPU]; found {
			return max(quantity.Value(), 1) // Value rounds up
		}
	}
	return 1
}
