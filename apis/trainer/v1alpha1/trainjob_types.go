package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=trainjobs,singular=trainjob,shortName=tj,categories=all
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtimeRef.name`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Deadline",type=integer,JSONPath=`.status.lifecycle.activeDeadlineSeconds`,priority=1
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.status.lifecycle.ttlSecondsAfterFinished`,priority=1
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.completionTime`,priority=1
// +kubebuilder:printcolumn:name="Preflight",type=string,JSONPath=`.status.preflight.outcome`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label: use lower-case letters, digits and '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be no more than 63 characters: use a shorter name"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.ttlSecondsAfterFinished) || (has(oldSelf.spec.ttlSecondsAfterFinished) && self.spec.ttlSecondsAfterFinished == oldSelf.spec.ttlSecondsAfterFinished) || (has(oldSelf.status) && has(oldSelf.status.lifecycle) && has(oldSelf.status.lifecycle.ttlSecondsAfterFinished) && self.spec.ttlSecondsAfterFinished == oldSelf.status.lifecycle.ttlSecondsAfterFinished)",message="spec.ttlSecondsAfterFinished is fixed when the TrainJob is created: create the job anew to change it",fieldPath=".spec.ttlSecondsAfterFinished"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.activeDeadlineSeconds) || (has(oldSelf.spec.activeDeadlineSeconds) && self.spec.activeDeadlineSeconds == oldSelf.spec.activeDeadlineSeconds) || (has(oldSelf.status) && has(oldSelf.status.lifecycle) && has(oldSelf.status.lifecycle.activeDeadlineSeconds) && self.spec.activeDeadlineSeconds == oldSelf.status.lifecycle.activeDeadlineSeconds)",message="spec.activeDeadlineSeconds is fixed when the TrainJob is created: create the job anew to change it",fieldPath=".spec.activeDeadlineSeconds"

// TrainJob is one training run: which runtime it uses, what it changes in it, and
// for how long it may run and be kept.
type TrainJob struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user asks for.
	// +required
	Spec TrainJobSpec `json:"spec,omitzero"`

	// status is what the controller has seen and decided.
	// +optional
	Status TrainJobStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// TrainJobList is a list of TrainJobs.
type TrainJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TrainJob `json:"items"`
}

// TrainJobSpec is what the user asks for.
// +kubebuilder:validation:XValidation:rule="has(self.initializer) == has(oldSelf.initializer)",message="spec.initializer is immutable: create the job anew to add or remove it",fieldPath=".initializer"
// +kubebuilder:validation:XValidation:rule="has(self.trainer) == has(oldSelf.trainer)",message="spec.trainer is immutable: create the job anew to add or remove it",fieldPath=".trainer"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || (has(self.runtimePatches) ? self.runtimePatches : []).map(p, p.manager) == (has(oldSelf.runtimePatches) ? oldSelf.runtimePatches : []).map(p, p.manager)",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || !has(self.runtimePatches) || !has(oldSelf.runtimePatches) || self.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, r.name) : []) == oldSelf.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, r.name) : [])",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || !has(self.runtimePatches) || !has(oldSelf.runtimePatches) || self.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.spec) && has(r.template.spec.template.spec.nodeSelector) ? r.template.spec.template.spec.nodeSelector : {}) : []) == oldSelf.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.spec) && has(r.template.spec.template.spec.nodeSelector) ? r.template.spec.template.spec.nodeSelector : {}) : [])",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || !has(self.runtimePatches) || !has(oldSelf.runtimePatches) || self.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.spec) && has(r.template.spec.template.spec.tolerations) ? r.template.spec.template.spec.tolerations.map(t, has(t.key) ? t.key : \"\") : []) : []) == oldSelf.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.spec) && has(r.template.spec.template.spec.tolerations) ? r.template.spec.template.spec.tolerations.map(t, has(t.key) ? t.key : \"\") : []) : [])",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || !has(self.runtimePatches) || !has(oldSelf.runtimePatches) || self.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.metadata) && has(r.template.spec.template.metadata.labels) ? r.template.spec.template.metadata.labels : {}) : []) == oldSelf.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.metadata) && has(r.template.spec.template.metadata.labels) ? r.template.spec.template.metadata.labels : {}) : [])",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
// +kubebuilder:validation:XValidation:rule="(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend) || !has(self.runtimePatches) || !has(oldSelf.runtimePatches) || self.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.metadata) && has(r.template.spec.template.metadata.annotations) ? r.template.spec.template.metadata.annotations : {}) : []) == oldSelf.runtimePatches.map(p, has(p.trainingRuntimeSpec) && has(p.trainingRuntimeSpec.template) && has(p.trainingRuntimeSpec.template.spec) && has(p.trainingRuntimeSpec.template.spec.replicatedJobs) ? p.trainingRuntimeSpec.template.spec.replicatedJobs.map(r, has(r.template) && has(r.template.spec) && has(r.template.spec.template) && has(r.template.spec.template.metadata) && has(r.template.spec.template.metadata.annotations) ? r.template.spec.template.metadata.annotations : {}) : [])",message="spec.runtimePatches can be changed only while spec.suspend is true before or after the update: suspend the job first, or in the same update",fieldPath=".runtimePatches"
type TrainJobSpec struct {
	// runtimeRef names the runtime the job is built from. It is read once, when the
	// job is first reconciled; later edits of the runtime do not reach this job.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.runtimeRef is immutable: create the job anew to change it"
	// +required
	RuntimeRef RuntimeRef `json:"runtimeRef,omitzero"`

	// initializer configures the steps that fetch the dataset and the model.
	// +optional
	Initializer *Initializer `json:"initializer,omitempty"`

	// trainer configures the training step.
	// +optional
	Trainer *Trainer `json:"trainer,omitempty"`

	// runtimePatches change the runtime's template for this job, one entry a manager,
	// applied in list order. They may be changed while the job is suspended, or in
	// the update that suspends or resumes it.
	// +listType=map
	// +listMapKey=manager
	// +kubebuilder:validation:MaxItems=16
	// +optional
	RuntimePatches []RuntimePatch `json:"runtimePatches,omitempty"`

	// suspend holds the job back (true) or lets it run (false).
	// +kubebuilder:default=false
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// managedBy says which controller runs this job. The controller of another name
	// is left alone with it.
	// +kubebuilder:default="trainer.kubeflow.org/trainjob-controller"
	// +kubebuilder:validation:XValidation:rule="self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']",message="spec.managedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue: give one of the two",messageExpression="'spec.managedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue, not ' + self + ': give one of the two'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.managedBy is immutable: create the job anew to change it"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`

	// ttlSecondsAfterFinished deletes the TrainJob, and with it all it owns, this many
	// seconds after it finished. 0 deletes at once after finishing; unset keeps it.
	// Fixed at creation.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// activeDeadlineSeconds fails the TrainJob with reason DeadlineExceeded when it is
	// unfinished this many seconds after its creation, time in suspension included; or,
	// if the controller was told so, after its last resume. Fixed at creation.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
}

// RuntimeRef names a runtime.
type RuntimeRef struct {
	// name of the runtime; a TrainingRuntime is looked up in the job's namespace.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="no runtime can have this name: use lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit",messageExpression="\"no runtime can have the name \" + self + \": use lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit\""
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// apiGroup of the runtime.
	// +kubebuilder:default="trainer.kubeflow.org"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`

	// kind of the runtime: ClusterTrainingRuntime, TrainingRuntime, or a kind the
	// admin allowed with --opaque-runtime-kinds.
	// +kubebuilder:default="ClusterTrainingRuntime"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Kind *string `json:"kind,omitempty"`
}

// Initializer configures the steps before training.
// +kubebuilder:validation:XValidation:rule="has(self.dataset) == has(oldSelf.dataset)",message="spec.initializer.dataset is immutable: create the job anew to add or remove it",fieldPath=".dataset"
// +kubebuilder:validation:XValidation:rule="has(self.model) == has(oldSelf.model)",message="spec.initializer.model is immutable: create the job anew to add or remove it",fieldPath=".model"
type Initializer struct {
	// dataset configures the container `dataset-initializer` of the replicatedJob
	// labelled with that step.
	// +optional
	Dataset *DatasetInitializer `json:"dataset,omitempty"`

	// model configures the container `model-initializer` of the replicatedJob labelled
	// with that step.
	// +optional
	Model *ModelInitializer `json:"model,omitempty"`
}

// DatasetInitializer says where the dataset comes from.
//
// Immutable, also for clients that write a whole job back: "0.5" and "500m", or a
// variable with an empty value and one without, are the same, so the rules compare what
// the fields mean. What they leave out is compared by admission.
// +kubebuilder:validation:XValidation:rule="(has(self.storageUri) ? self.storageUri : \"\") == (has(oldSelf.storageUri) ? oldSelf.storageUri : \"\")",message="spec.initializer.dataset.storageUri is immutable: create the job anew to change it",fieldPath=".storageUri"
// +kubebuilder:validation:XValidation:rule="(has(self.secretRef) && has(self.secretRef.name) ? self.secretRef.name : \"\") == (has(oldSelf.secretRef) && has(oldSelf.secretRef.name) ? oldSelf.secretRef.name : \"\")",message="spec.initializer.dataset.secretRef is immutable: create the job anew to change it",fieldPath=".secretRef"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"]) == (has(oldSelf.env) ? oldSelf.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"])",message="spec.initializer.dataset.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key])",message="spec.initializer.dataset.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="!has(self.storageUri) || size(self.storageUri) == 0 || !has(self.env) || !self.env.exists(e, e.name == 'STORAGE_URI')",message="STORAGE_URI is set from storageUri: remove one of the two",fieldPath=".env"
type DatasetInitializer struct {
	// storageUri is a URI (s3://bucket/path, hf://org/name, …), or empty.
	// +kubebuilder:validation:Pattern=`^([A-Za-z][A-Za-z0-9+.-]*://.+)?$`
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	StorageUri *string `json:"storageUri,omitempty"`

	// env is merged into the container's variables; a name set in both has this value.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.valueFrom) && has(e.value) && size(e.value) > 0))",message="a variable has a value or a valueFrom: remove one of the two"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// secretRef names a Secret in the job's namespace whose keys become variables.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="a Secret is found by its name: give it, or remove secretRef"
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// ModelInitializer says where the pre-trained model comes from.
//
// Immutable, also for clients that write a whole job back: "0.5" and "500m", or a
// variable with an empty value and one without, are the same, so the rules compare what
// the fields mean. What they leave out is compared by admission.
// +kubebuilder:validation:XValidation:rule="(has(self.storageUri) ? self.storageUri : \"\") == (has(oldSelf.storageUri) ? oldSelf.storageUri : \"\")",message="spec.initializer.model.storageUri is immutable: create the job anew to change it",fieldPath=".storageUri"
// +kubebuilder:validation:XValidation:rule="(has(self.secretRef) && has(self.secretRef.name) ? self.secretRef.name : \"\") == (has(oldSelf.secretRef) && has(oldSelf.secretRef.name) ? oldSelf.secretRef.name : \"\")",message="spec.initializer.model.secretRef is immutable: create the job anew to change it",fieldPath=".secretRef"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"]) == (has(oldSelf.env) ? oldSelf.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"])",message="spec.initializer.model.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key])",message="spec.initializer.model.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="!has(self.storageUri) || size(self.storageUri) == 0 || !has(self.env) || !self.env.exists(e, e.name == 'STORAGE_URI')",message="STORAGE_URI is set from storageUri: remove one of the two",fieldPath=".env"
type ModelInitializer struct {
	// storageUri is a URI (s3://bucket/path, hf://org/name, …), or empty.
	// +kubebuilder:validation:Pattern=`^([A-Za-z][A-Za-z0-9+.-]*://.+)?$`
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	StorageUri *string `json:"storageUri,omitempty"`

	// env is merged into the container's variables; a name set in both has this value.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.valueFrom) && has(e.value) && size(e.value) > 0))",message="a variable has a value or a valueFrom: remove one of the two"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// secretRef names a Secret in the job's namespace whose keys become variables.
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="a Secret is found by its name: give it, or remove secretRef"
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// Trainer configures the container `node` of the replicatedJob labelled as trainer.
//
// Immutable, also for clients that write a whole job back: "0.5" and "500m", or a
// variable with an empty value and one without, are the same, so the rules compare what
// the fields mean. What they leave out is compared by admission.
// +kubebuilder:validation:XValidation:rule="(has(self.image) ? self.image : \"\") == (has(oldSelf.image) ? oldSelf.image : \"\")",message="spec.trainer.image is immutable: create the job anew to change it",fieldPath=".image"
// +kubebuilder:validation:XValidation:rule="(has(self.command) ? self.command : []) == (has(oldSelf.command) ? oldSelf.command : [])",message="spec.trainer.command is immutable: create the job anew to change it",fieldPath=".command"
// +kubebuilder:validation:XValidation:rule="(has(self.args) ? self.args : []) == (has(oldSelf.args) ? oldSelf.args : [])",message="spec.trainer.args is immutable: create the job anew to change it",fieldPath=".args"
// +kubebuilder:validation:XValidation:rule="(has(self.numNodes) ? self.numNodes : -1) == (has(oldSelf.numNodes) ? oldSelf.numNodes : -1)",message="spec.trainer.numNodes is immutable: create the job anew to change it",fieldPath=".numNodes"
// +kubebuilder:validation:XValidation:rule="(has(self.numProcPerNode) ? self.numProcPerNode : -1) == (has(oldSelf.numProcPerNode) ? oldSelf.numProcPerNode : -1)",message="spec.trainer.numProcPerNode is immutable: create the job anew to change it",fieldPath=".numProcPerNode"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"]) == (has(oldSelf.env) ? oldSelf.env : []).map(e, [e.name, has(e.value) ? e.value : \"\"])",message="spec.trainer.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, [e.name, has(e.valueFrom.secretKeyRef.name) ? e.valueFrom.secretKeyRef.name : \"\", e.valueFrom.secretKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, [e.name, has(e.valueFrom.configMapKeyRef.name) ? e.valueFrom.configMapKeyRef.name : \"\", e.valueFrom.configMapKeyRef.key]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fieldRef)).map(e, [e.name, e.valueFrom.fieldRef.fieldPath]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.resourceFieldRef)).map(e, [e.name, e.valueFrom.resourceFieldRef.resource]) && (has(self.env) ? self.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key]) == (has(oldSelf.env) ? oldSelf.env : []).filter(e, has(e.valueFrom) && has(e.valueFrom.fileKeyRef)).map(e, [e.name, e.valueFrom.fileKeyRef.path, e.valueFrom.fileKeyRef.key])",message="spec.trainer.env is immutable: create the job anew to change it",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="has(self.resourcesPerNode) == has(oldSelf.resourcesPerNode)",message="spec.trainer.resourcesPerNode is immutable: create the job anew to add or remove it",fieldPath=".resourcesPerNode"
// +kubebuilder:validation:XValidation:rule="(has(self.resourcesPerNode) && has(self.resourcesPerNode.claims) ? self.resourcesPerNode.claims : []).map(c, c.name) == (has(oldSelf.resourcesPerNode) && has(oldSelf.resourcesPerNode.claims) ? oldSelf.resourcesPerNode.claims : []).map(c, c.name)",message="spec.trainer.resourcesPerNode is immutable: create the job anew to change it",fieldPath=".resourcesPerNode"
type Trainer struct {
	// image replaces the container's image.
	// +kubebuilder:validation:MaxLength=500
	// +optional
	Image *string `json:"image,omitempty"`

	// command replaces the container's command.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=1048576
	// +optional
	Command []string `json:"command,omitempty"`

	// args replaces the container's arguments.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=1048576
	// +optional
	Args []string `json:"args,omitempty"`

	// env is merged into the container's variables; a name set in both has this value.
	// Names reserved by the framework keep the framework's value.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.valueFrom) && has(e.value) && size(e.value) > 0))",message="a variable has a value or a valueFrom: remove one of the two"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// numNodes is the number of training nodes, one pod each.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	// resourcesPerNode is merged, resource by resource, into the container's resources.
	// Quantities are of any form that Kubernetes accepts, and not negative. What they are
	// is compared by admission only: rules here cannot read a quantity that is a number.
	// +optional
	ResourcesPerNode *corev1.ResourceRequirements `json:"resourcesPerNode,omitempty"`

	// numProcPerNode is the number of processes on every node. Unset, the framework
	// chooses (torch: `auto` with GPUs, else the number of CPUs).
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`
}
