package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
)

// applyPatches lays spec.runtimePatches over the template, in list order. The merges
// are those of Kubernetes' strategic merge, written out so that three things hold: the
// order of jobs and containers never changes, tolerations add up, and a field with
// alternatives never ends up with two of them.
func applyPatches(js *jobsetv1alpha2.JobSet, patches []v1alpha1.RuntimePatch) field.ErrorList {
	var errs field.ErrorList
	for i := range patches {
		if isEmptyPatch(&patches[i]) {
			continue
		}
		template := patches[i].TrainingRuntimeSpec.Template.DeepCopy() // its pieces move into the JobSet
		path := field.NewPath("spec", "runtimePatches").Index(i).Child("trainingRuntimeSpec", "template")
		mergeMetadata(&js.ObjectMeta, template.Metadata)
		if template.Spec == nil {
			continue
		}
		for k := range template.Spec.ReplicatedJobs {
			errs = append(errs, applyJobPatch(&js.Spec, &template.Spec.ReplicatedJobs[k],
				path.Child("spec", "replicatedJobs").Index(k))...)
		}
	}
	return errs
}

// isEmptyPatch reports whether an entry changes nothing. A manager such as Kueue
// keeps its place in the list with an empty entry.
func isEmptyPatch(patch *v1alpha1.RuntimePatch) bool {
	if patch.TrainingRuntimeSpec == nil || patch.TrainingRuntimeSpec.Template == nil {
		return true
	}
	template := patch.TrainingRuntimeSpec.Template
	metadata, spec := template.Metadata, template.Spec
	return (metadata == nil || len(metadata.Labels)+len(metadata.Annotations) == 0) &&
		(spec == nil || len(spec.ReplicatedJobs) == 0)
}

func applyJobPatch(spec *jobsetv1alpha2.JobSetSpec, patch *v1alpha1.ReplicatedJobPatch, path *field.Path) field.ErrorList {
	rjob := framework.FindReplicatedJob(spec, patch.Name)
	if rjob == nil {
		return field.ErrorList{notFound(path.Child("name"), patch.Name, fmt.Sprintf(
			"name a replicatedJob of the runtime (%s) or remove the entry", framework.JobNames(spec)))}
	}
	if patch.Template == nil {
		return nil
	}
	path = path.Child("template")
	var errs field.ErrorList
	if metadata := patch.Template.Metadata; metadata != nil {
		errs = checkStepLabel(metadata, &rjob.Template.ObjectMeta, path.Child("metadata", "labels"))
		mergeMetadata(&rjob.Template.ObjectMeta, metadata)
	}
	if patch.Template.Spec == nil || patch.Template.Spec.Template == nil {
		return errs
	}
	pod, template := patch.Template.Spec.Template, &rjob.Template.Spec.Template
	mergeMetadata(&template.ObjectMeta, pod.Metadata)
	if pod.Spec == nil {
		return errs
	}
	return append(errs, applyPodPatch(&template.Spec, pod.Spec, path.Child("spec", "template", "spec"))...)
}

// checkStepLabel refuses patches that give a job another role: that is the runtime's
// to say, and everybody who counts nodes reads it there.
func checkStepLabel(patch, base *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	value, found := patch.Labels[v1alpha1.LabelAncestorStep]
	if !found || value == base.Labels[v1alpha1.LabelAncestorStep] {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Key(v1alpha1.LabelAncestorStep), shortened(value, maxValueBytes),
		"the label is the runtime's to set: remove it from the patch")}
}

func containerName(c *corev1.Container) string { return c.Name }

func gateName(g *corev1.PodSchedulingGate) string { return g.Name }

func jobName(r *jobsetv1alpha2.ReplicatedJob) string { return r.Name }

func mergeMetadata(base, patch *metav1.ObjectMeta) {
	if patch == nil {
		return
	}
	base.Labels = mergeMaps(base.Labels, patch.Labels)
	base.Annotations = mergeMaps(base.Annotations, patch.Annotations)
}

func applyPodPatch(pod *corev1.PodSpec, patch *v1alpha1.PodSpecPatch, path *field.Path) field.ErrorList {
	if patch.ServiceAccountName != nil && *patch.ServiceAccountName != "" {
		pod.ServiceAccountName = *patch.ServiceAccountName
		pod.DeprecatedServiceAccount = "" // the old name of the same field
	}
	pod.Volumes = mergeByKey(pod.Volumes, patch.Volumes, volumeName, combineVolume)
	pod.ImagePullSecrets = mergeByKey(pod.ImagePullSecrets, patch.ImagePullSecrets,
		func(s *corev1.LocalObjectReference) string { return s.Name }, replace[corev1.LocalObjectReference])
	pod.SecurityContext = overlay(pod.SecurityContext, patch.SecurityContext)
	pod.NodeSelector = mergeMaps(pod.NodeSelector, patch.NodeSelector)
	pod.Affinity = overlay(pod.Affinity, patch.Affinity)
	pod.Tolerations = addTolerations(pod.Tolerations, patch.Tolerations)
	pod.SchedulingGates = mergeByKey(pod.SchedulingGates, patch.SchedulingGates,
		gateName, replace[corev1.PodSchedulingGate])
	if patch.TerminationGracePeriodSeconds != nil {
		pod.TerminationGracePeriodSeconds = patch.TerminationGracePeriodSeconds
	}

	errs := applyContainerPatches(pod.InitContainers, patch.InitContainers, path.Child("initContainers"))
	return append(errs, applyContainerPatches(pod.Containers, patch.Containers, path.Child("containers"))...)
}

func applyContainerPatches(containers []corev1.Container, patches []v1alpha1.ContainerPatch, path *field.Path) field.ErrorList {
	if len(patches) == 0 {
		return nil
	}
	var errs field.ErrorList
	byName := firstByKey(containers, containerName)
	for i := range patches {
		patch := &patches[i]
		at, found := byName[patch.Name]
		if !found {
			remedy := "the runtime has none there: leave it out"
			if len(containers) > 0 {
				remedy = fmt.Sprintf("name one that the runtime has there (%s)", framework.ContainerNames(containers))
			}
			errs = append(errs, notFound(path.Index(i).Child("name"), patch.Name,
				remedy+"; in a job that exists, remove the patch while the job is suspended and add it anew"))
			continue
		}
		container := &containers[at]
		container.Env = mergeEnv(container.Env, patch.Env)
		container.VolumeMounts = mergeByKey(container.VolumeMounts, patch.VolumeMounts, mountPath, combineMount)
		container.SecurityContext = overlay(container.SecurityContext, patch.SecurityContext)
	}
	return errs
}
