package render

import (
	corev1 "k8s.io/api/core/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// UpdateSuspended brings a suspended JobSet up to date with the patches of its job as
// far as JobSet allows: labels, annotations, nodeSelector, tolerations and
// schedulingGates of each pod template are set from desired, and the hash of the
// patches with them. Everything else in updated, which is a copy, is as it is in
// live, what admission filled in included.
//
// removedFrom names, in the order of live, the replicatedJobs from which something
// was taken away. JobSet only adds to Jobs that exist, so the suspended Jobs of these
// must be made anew for the removal to reach the pods.
func UpdateSuspended(live, desired *jobsetv1alpha2.JobSet) (updated *jobsetv1alpha2.JobSet, removedFrom []string) {
	updated = live.DeepCopy()
	updated.Annotations = mergeMaps(updated.Annotations, map[string]string{
		v1alpha1.AnnotationPatchesHash: desired.Annotations[v1alpha1.AnnotationPatchesHash],
	})
	wanted := firstByKey(desired.Spec.ReplicatedJobs, jobName)
	for i := range updated.Spec.ReplicatedJobs {
		rjob := &updated.Spec.ReplicatedJobs[i]
		at, found := wanted[rjob.Name]
		if !found {
			continue // not a job of ours to judge; JobSet would refuse its removal
		}
		if setChangeable(&rjob.Template.Spec.Template, &desired.Spec.ReplicatedJobs[at].Template.Spec.Template) {
			removedFrom = append(removedFrom, rjob.Name)
		}
	}
	return updated, removedFrom
}

// setChangeable sets the five fields from want and reports whether pod had something
// in them that want lacks.
func setChangeable(pod, want *corev1.PodTemplateSpec) (removed bool) {
	want = want.DeepCopy()
	removed = lacksKey(pod.Labels, want.Labels) ||
		lacksKey(pod.Annotations, want.Annotations) ||
		lacksKey(pod.Spec.NodeSelector, want.Spec.NodeSelector) ||
		lacks(pod.Spec.Tolerations, want.Spec.Tolerations, keyOfToleration) ||
		lacks(pod.Spec.SchedulingGates, want.Spec.SchedulingGates, gateName)

	pod.Labels = want.Labels
	pod.Annotations = want.Annotations
	pod.Spec.NodeSelector = want.Spec.NodeSelector
	pod.Spec.Tolerations = want.Spec.Tolerations
	pod.Spec.SchedulingGates = want.Spec.SchedulingGates
	return removed
}

// lacksKey reports whether want lacks a key of have. A key with another value is not
// lacking: it is overwritten.
func lacksKey(have, want map[string]string) bool {
	for key := range have {
		if _, found := want[key]; !found {
			return true
		}
	}
	return false
}
