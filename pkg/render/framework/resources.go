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

// gpuKinds are the names after the slash under which device plugins offer GPUs, whoever
// makes them, and gpuPrefixes those under which they offer partitions: NVIDIA's by their
// size, AMD's by their mode.
var (
	gpuKinds    = map[string]bool{"gpu": true, "gpu.shared": true, "gpu-count": true, "gpu-number": true, "vgpu": true, "vgpu-number": true}
	gpuPrefixes = []string{"mig-", "spx_", "dpx_", "tpx_", "qpx_", "cpx_"}
)

// intelGPUs is the domain in which Intel's plugin names GPUs by their driver.
const intelGPUs = "gpu.intel.com"

func isGPU(name corev1.ResourceName) bool {
	domain, kind, found := strings.Cut(string(name), "/")
	if !found || domain == "" {
		return false
	}
	if gpuKinds[kind] || domain == intelGPUs && (kind == "i915" || kind == "xe") {
		return true
	}
	for _, prefix := range gpuPrefixes {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// CPUs is the number of CPUs of a container rounded up, at least 1: what it requests,
// else what it is limited to, else what its pod as a whole (nil if it says nothing)
// requests or is limited to. The request counts first, because that much is the
// container's own whatever else runs on its machine.
func CPUs(container, pod *corev1.ResourceRequirements) int64 {
	for _, resources := range []*corev1.ResourceRequirements{container, pod} {
		if resources == nil {
			continue
		}
		for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
			if quantity, found := list[corev1.ResourceCPU]; found {
				return max(quantity.Value(), 1) // Value rounds up
			}
		}
	}
	return 1
}

// nodeCPUs is the number of CPUs of the training container.
func nodeCPUs(in Input) int64 {
	return CPUs(&in.Node.Resources, in.TrainerJob.Template.Spec.Template.Spec.Resources)
}
