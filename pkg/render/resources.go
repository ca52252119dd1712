package render

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mergeResources lays resourcesPerNode over a container's resources, resource by
// resource. Where it names only one side of a resource and the runtime's other side
// contradicts it (a request above the limit, say), the other side follows: the user
// meant the new number, and the API server would refuse the pair.
func mergeResources(base, over *corev1.ResourceRequirements) {
	if over == nil {
		return
	}
	base.Limits = mergeQuantities(base.Limits, over.Limits)
	base.Requests = mergeQuantities(base.Requests, over.Requests)
	base.Claims = mergeByKey(base.Claims, over.Claims,
		func(c *corev1.ResourceClaim) string { return c.Name }, replace[corev1.ResourceClaim])

	for name, limit := range over.Limits {
		if _, both := over.Requests[name]; both {
			continue
		}
		if request, found := base.Requests[name]; found && (FixedResource(name) || request.Cmp(limit) > 0) {
			base.Requests[name] = limit.DeepCopy()
		}
	}
	for name, request := range over.Requests {
		if _, both := over.Limits[name]; both {
			continue
		}
		limit, found := base.Limits[name]
		switch {
		case found && limit.Cmp(request) >= 0 && !FixedResource(name):
		case found:
			base.Limits[name] = request.DeepCopy()
		case FixedResource(name):
			base.Limits = mergeQuantities(base.Limits, corev1.ResourceList{name: request.DeepCopy()})
		}
	}
}

// FixedResource reports whether a resource's request must equal its limit: that holds for
// extended resources, such as GPUs, and for huge pages.
func FixedResource(name corev1.ResourceName) bool {
	return ExtendedResource(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ExtendedResource reports whether a resource is a device that Kubernetes itself knows
// nothing of. Names in kubernetes.io and its subdomains are Kubernetes' own.
func ExtendedResource(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func mergeQuantities(base, over corev1.ResourceList) corev1.ResourceList {
	if base == nil && len(over) > 0 {
		base = make(corev1.ResourceList, len(over))
	}
	for name, quantity := range over {
		base[name] = quantity
	}
	return base
}
