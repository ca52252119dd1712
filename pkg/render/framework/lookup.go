package framework

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// FindReplicatedJob returns the replicatedJob of that name, or nil.
func FindReplicatedJob(spec *jobsetv1alpha2.JobSetSpec, name string) *jobsetv1alpha2.ReplicatedJob {
	for i := range spec.ReplicatedJobs {
		if spec.ReplicatedJobs[i].Name == name {
			return &spec.ReplicatedJobs[i]
		}
	}
	return nil
}

// FindContainer returns the container of that name in one list, or nil.
func FindContainer(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// FindAnyContainer returns the container or init container of that name, or nil. The
// API server keeps names unique over both lists.
func FindAnyContainer(pod *corev1.PodSpec, name string) *corev1.Container {
	if c := FindContainer(pod.Containers, name); c != nil {
		return c
	}
	return FindContainer(pod.InitContainers, name)
}

// JobNames lists the replicatedJobs of a template for messages.
func JobNames(spec *jobsetv1alpha2.JobSetSpec) string {
	names := make([]string, 0, len(spec.ReplicatedJobs))
	for i := range spec.ReplicatedJobs {
		names = append(names, spec.ReplicatedJobs[i].Name)
	}
	return joinOrNone(names)
}

// ContainerNames lists containers for messages.
func ContainerNames(lists ...[]corev1.Container) string {
	var names []string
	for _, list := range lists {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return joinOrNone(names)
}

// maxNamesInMessage keeps messages readable for very long templates.
const maxNamesInMessage = 8

func joinOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) > maxNamesInMessage {
		names = append(names[:maxNamesInMessage:maxNamesInMessage], "…")
	}
	return strings.Join(names, ", ")
}
