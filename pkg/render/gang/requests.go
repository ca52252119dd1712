package gang

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// podRequests is what a scheduler sets aside for a pod: what its containers and
// sidecars need together, or what an init container needs at its time if that is more,
// and the pod's overhead.
func podRequests(pod *corev1.PodSpec) corev1.ResourceList {
	total, peak, sidecars := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Containers {
		add(total, containerRequests(&pod.Containers[i].Resources))
	}
	for i := range pod.InitContainers {
		container := &pod.InitContainers[i]
		// Runs beside the sidecars that were started before it.
		now := sidecars.DeepCopy()
		add(now, containerRequests(&container.Resources))
		raise(peak, now)
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = now
		}
	}
	add(total, sidecars)
	raise(total, peak)
	overridePodLevel(total, pod.Resources)
	add(total, pod.Overhead)
	return total
}

// containerRequests takes the limit of a resource that is only limited as its request,
// as the API server does.
func containerRequests(resources *corev1.ResourceRequirements) corev1.ResourceList {
	list := corev1.ResourceList{}
	add(list, resources.Limits)
	for name, quantity := range resources.Requests {
		list[name] = quantity.DeepCopy()
	}
	return list
}

// overridePodLevel puts requests of the pod as a whole in the place of those of its
// containers; limits alone count where no container requests anything.
func overridePodLevel(total corev1.ResourceList, resources *corev1.ResourceRequirements) {
	if resources == nil {
		return
	}
	for name, limit := range resources.Limits {
		if _, requested := total[name]; !requested && podLevel(name) {
			total[name] = limit.DeepCopy()
		}
	}
	for name, request := range resources.Requests {
		if podLevel(name) {
			total[name] = request.DeepCopy()
		}
	}
}

// podLevel says whether a resource can be requested for the pod as a whole.
func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// add adds to the quantities of sum.
func add(sum, list corev1.ResourceList) {
	for name, quantity := range list {
		value := sum[name].DeepCopy()
		value.Add(quantity)
		sum[name] = value
	}
}

// raise raises the quantities of most to those of list that are higher.
func raise(most, list corev1.ResourceList) {
	for name, quantity := range list {
		if have, found := most[name]; !found || quantity.Cmp(have) > 0 {
			most[name] = quantity.DeepCopy()
		}
	}
}
