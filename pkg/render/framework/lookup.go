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

// Containers finds containers and init containers of jobs by their names, in a time that
// does not depend on how many a job has. The lists must not change between two calls.
type Containers map[*jobsetv1alpha2.ReplicatedJob]map[string]*corev1.Container

// Find returns the container of that name, or nil. One that is no init container comes
// first; the API server keeps names unique over both lists.
func (c Containers) Find(rjob *jobsetv1alpha2.ReplicatedJob, name string) *corev1.Container {
	byName, known := c[rjob]
	if !known {
		pod := &rjob.Template.Spec.Template.Spec
		byName = make(map[string]*corev1.Container, len(pod.Containers)+len(pod.InitContainers))
		for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
			for i := range list {
				if byName[list[i].Name] == nil {
					byName[list[i].Name] = &list[i]
				}
			}
		}
		c[rjob] = byName
	}
	return byName[name]
}

// JobNames lists the replicatedJobs of a template for messages.
func JobNames(spec *jobsetv1alpha2.JobSetSpec) string {
	return SomeNames(len(spec.ReplicatedJobs), func(i int) string { return spec.ReplicatedJobs[i].Name })
}

// ContainerNames lists containers for messages.
func ContainerNames(lists ...[]corev1.Container) string {
	total := 0
	for _, list := range lists {
		total += len(list)
	}
	return SomeNames(total, func(i int) string {
		for _, list := range lists {
			if i < len(list) {
				return list[i].Name
			}
			i -= len(list)
		}
		return ""
	})
}

// maxNamesInMessage keeps messages readable for very long templates.
const maxNamesInMessage = 8

// SomeNames lists the first of so many names for messages, and looks at no others: a
// message may be one of thousands about the same list.
func SomeNames(count int, name func(int) string) string {
	if count == 0 {
		return "none"
	}
	var names []string
	for i := range min(count, maxNamesInMessage) {
		names = append(names, name(i))
	}
	if count > maxNamesInMessage {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
