package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RuntimePatch is what one manager changes in the runtime's template for this job.
type RuntimePatch struct {
	// manager owns this entry: a path with a domain before it, such as
	// "kueue.x-k8s.io/manager".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/._~%!$&\\'()*+,;=:-]+$')",message="a manager is a path with a domain before it: give a name such as example.com/me"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="manager is immutable: remove the entry while the job is suspended and add it anew"
	// +required
	Manager string `json:"manager,omitempty"`

	// time is when the entry was last changed. Set by admission, for people to read.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// trainingRuntimeSpec mirrors the part of a runtime's spec that may be changed.
	// +optional
	TrainingRuntimeSpec *TrainingRuntimeSpecPatch `json:"trainingRuntimeSpec,omitempty"`
}

// TrainingRuntimeSpecPatch mirrors TrainingRuntimeSpec.
type TrainingRuntimeSpecPatch struct {
	// template changes the JobSet template.
	// +optional
	Template *JobSetTemplatePatch `json:"template,omitempty"`
}

// JobSetTemplatePatch mirrors JobSetTemplateSpec.
type JobSetTemplatePatch struct {
	// metadata adds labels and annotations to the JobSet; nothing else of it is used.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec changes the JobSet's spec.
	// +optional
	Spec *JobSetSpecPatch `json:"spec,omitempty"`
}

// JobSetSpecPatch mirrors JobSetSpec.
type JobSetSpecPatch struct {
	// replicatedJobs changes replicatedJobs of the runtime, found by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +optional
	ReplicatedJobs []ReplicatedJobPatch `json:"replicatedJobs,omitempty"`
}

// ReplicatedJobPatch changes one replicatedJob.
type ReplicatedJobPatch struct {
	// name of a replicatedJob of the runtime.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name,omitempty"`

	// template changes the Job template.
	// +optional
	Template *JobTemplatePatch `json:"template,omitempty"`
}

// JobTemplatePatch mirrors a Job template.
type JobTemplatePatch struct {
	// metadata adds labels and annotations to the Jobs; nothing else of it is used.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec changes the Job's spec.
	// +optional
	Spec *JobSpecPatch `json:"spec,omitempty"`
}

// JobSpecPatch mirrors a Job's spec.
type JobSpecPatch struct {
	// template changes the pod template.
	// +optional
	Template *PodTemplatePatch `json:"template,omitempty"`
}

// PodTemplatePatch mirrors a pod template.
type PodTemplatePatch struct {
	// metadata adds labels and annotations to the pods; nothing else of it is used.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec changes the pod's spec.
	// +optional
	Spec *PodSpecPatch `json:"spec,omitempty"`
}

// PodSpecPatch holds the fields of a pod's spec that a manager may change. Those a
// JobSet cannot take after its first start are immutable here: to correct one, remove
// the manager's entry while the job is suspended and add it anew. Of lists whose items
// can be written in more than one way only names and numbers are compared here, so that
// clients can write a whole job back; admission compares the rest.
type PodSpecPatch struct {
	// serviceAccountName replaces the service account.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serviceAccountName of a patch is immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`

	// volumes adds volumes, or changes them by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.map(v, v.name) == oldSelf.map(v, v.name)",message="volumes of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// initContainers changes init containers by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(c, c.name) == oldSelf.map(c, c.name)",message="initContainers of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +kubebuilder:validation:XValidation:rule="self.map(c, [size(has(c.env) ? c.env : []), size(has(c.volumeMounts) ? c.volumeMounts : [])]) == oldSelf.map(c, [size(has(c.env) ? c.env : []), size(has(c.volumeMounts) ? c.volumeMounts : [])])",message="initContainers of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	InitContainers []ContainerPatch `json:"initContainers,omitempty"`

	// containers changes containers by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(c, c.name) == oldSelf.map(c, c.name)",message="containers of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +kubebuilder:validation:XValidation:rule="self.map(c, [size(has(c.env) ? c.env : []), size(has(c.volumeMounts) ? c.volumeMounts : [])]) == oldSelf.map(c, [size(has(c.env) ? c.env : []), size(has(c.volumeMounts) ? c.volumeMounts : [])])",message="containers of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	Containers []ContainerPatch `json:"containers,omitempty"`

	// imagePullSecrets adds image pull secrets by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="imagePullSecrets of a patch are immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// securityContext is merged into the pod's security context.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="securityContext of a patch is immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// nodeSelector is merged, key by key, into the pod's node selector.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity is merged into the pod's affinity.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations are added to the pod's tolerations, equal ones once.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(t, (has(t.key) && size(t.key) > 0) || (has(t.operator) && t.operator == 'Exists'))",message="a toleration without a key tolerates every taint: set the operator Exists, or give the key"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !(has(t.operator) && t.operator == 'Exists' && has(t.value) && size(t.value) > 0))",message="a toleration with the operator Exists has no value: remove the value, or set the operator Equal"
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// schedulingGates are added to the pod's scheduling gates, equal names once.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates,omitempty"`

	// terminationGracePeriodSeconds replaces the time the pods have to end, once asked to.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="terminationGracePeriodSeconds of a patch is immutable: remove the entry while the job is suspended and add it anew"
	// +optional
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// ContainerPatch changes one container.
type ContainerPatch struct {
	// name of a container of the runtime.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// env is merged into the container's variables by name. In the main containers (node,
	// dataset-initializer, model-initializer) a variable of spec.trainer or
	// spec.initializer with the same name wins.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumeMounts adds mounts, or changes them by mountPath, so that one volume can be
	// mounted twice.
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=128
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// securityContext is merged into the container's security context.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}
