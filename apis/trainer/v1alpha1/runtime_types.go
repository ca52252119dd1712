package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clustertrainingruntimes,singular=clustertrainingruntime,scope=Cluster,shortName=ctr
// +kubebuilder:printcolumn:name="Framework",type=string,JSONPath=`.metadata.labels.trainer\.kubeflow\.org/framework`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.spec.mlPolicy.numNodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ClusterTrainingRuntime is a template for TrainJobs of every namespace.
type ClusterTrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the runtime. It may be edited at any time: jobs that exist keep the
	// snapshot they took.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// ClusterTrainingRuntimeList is a list of ClusterTrainingRuntimes.
type ClusterTrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterTrainingRuntime `json:"items"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=trainingruntimes,singular=trainingruntime,shortName=tr
// +kubebuilder:printcolumn:name="Framework",type=string,JSONPath=`.metadata.labels.trainer\.kubeflow\.org/framework`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.spec.mlPolicy.numNodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// TrainingRuntime is a template for the TrainJobs of its namespace.
type TrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the runtime. It may be edited at any time: jobs that exist keep the
	// snapshot they took.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// TrainingRuntimeList is a list of TrainingRuntimes.
type TrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TrainingRuntime `json:"items"`
}

// TrainingRuntimeSpec is what the two runtime kinds share.
// +kubebuilder:validation:XValidation:rule="(has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) ? self.template.spec.replicatedJobs : []).all(j, !(has(j.template.metadata) && has(j.template.metadata.labels) && 'trainer.kubeflow.org/trainjob-ancestor-step' in j.template.metadata.labels) || !(j.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step'] in ['trainer', 'dataset-initializer', 'model-initializer']) || j.replicas == 1)",message="a replicatedJob that is a step (label trainer.kubeflow.org/trainjob-ancestor-step) has one replica: give the number of training nodes in spec.mlPolicy.numNodes",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="(has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) ? self.template.spec.replicatedJobs : []).filter(j, has(j.template.metadata) && has(j.template.metadata.labels) && 'trainer.kubeflow.org/trainjob-ancestor-step' in j.template.metadata.labels && j.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step'] == 'trainer').size() <= 1",message="only one replicatedJob can have the label trainer.kubeflow.org/trainjob-ancestor-step: trainer: remove it from the others",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="(has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) ? self.template.spec.replicatedJobs : []).filter(j, has(j.template.metadata) && has(j.template.metadata.labels) && 'trainer.kubeflow.org/trainjob-ancestor-step' in j.template.metadata.labels && j.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step'] == 'dataset-initializer').size() <= 1",message="only one replicatedJob can have the label trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer: remove it from the others",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="(has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) ? self.template.spec.replicatedJobs : []).filter(j, has(j.template.metadata) && has(j.template.metadata.labels) && 'trainer.kubeflow.org/trainjob-ancestor-step' in j.template.metadata.labels && j.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step'] == 'model-initializer').size() <= 1",message="only one replicatedJob can have the label trainer.kubeflow.org/trainjob-ancestor-step: model-initializer: remove it from the others",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) && self.template.spec.replicatedJobs.size() > 0",message="a runtime has a template with jobs: give at least the one that trains",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="!has(self.mlPolicy) || !(has(self.mlPolicy.torch) || has(self.mlPolicy.mpi) || has(self.mlPolicy.jax) || has(self.mlPolicy.xgboost) || has(self.mlPolicy.flux)) || (has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) ? self.template.spec.replicatedJobs : []).all(j, !(has(j.template.metadata) && has(j.template.metadata.labels) && 'trainer.kubeflow.org/trainjob-ancestor-step' in j.template.metadata.labels && j.template.metadata.labels['trainer.kubeflow.org/trainjob-ancestor-step'] == 'trainer') || !has(j.template.spec) || !has(j.template.spec.completionMode) || j.template.spec.completionMode == 'Indexed')",message="under a framework the training nodes are found by their completion index: set completionMode of the replicatedJob that trains to Indexed, or leave it out",fieldPath=".template.spec.replicatedJobs"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.template.spec.network) || !has(self.template.spec.network.subdomain) || self.template.spec.network.subdomain.size() == 0 || self.template.spec.network.subdomain.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",message="the subdomain becomes the name of a Service: use at most 63 lower-case letters, digits and '-', beginning with a letter",fieldPath=".template.spec.network.subdomain"
// +kubebuilder:validation:MinProperties=1
type TrainingRuntimeSpec struct {
	// mlPolicy says what the framework needs in the pods.
	// +optional
	MLPolicy *MLPolicy `json:"mlPolicy,omitempty"`

	// podGroupPolicy asks for gang scheduling.
	// +optional
	PodGroupPolicy *PodGroupPolicy `json:"podGroupPolicy,omitempty"`

	// template is the JobSet the job starts from. The replicatedJob labelled
	// trainer.kubeflow.org/trainjob-ancestor-step: trainer is the training step and its
	// container `node` the training container.
	// +optional
	Template JobSetTemplateSpec `json:"template,omitzero"`
}

// JobSetTemplateSpec is a template of a JobSet. Name and namespace come from the
// TrainJob.
// +kubebuilder:validation:MinProperties=1
type JobSetTemplateSpec struct {
	// metadata: labels and annotations for the JobSet.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the JobSet.
	// +optional
	Spec jobsetv1alpha2.JobSetSpec `json:"spec,omitempty"`
}

// MLPolicy says what the framework needs. At most one framework may be given; with
// none, only numNodes has an effect.
// +kubebuilder:validation:XValidation:rule="[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(x, x).size() <= 1",message="only one of torch, mpi, jax, xgboost and flux may be set: remove the others"
type MLPolicy struct {
	// numNodes is the number of training nodes of jobs that do not say it themselves.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	MLPolicySource `json:",inline"`
}

// MLPolicySource is one framework.
type MLPolicySource struct {
	// torch: PyTorch under torchrun, configured by PET_* variables.
	// +optional
	Torch *TorchMLPolicySource `json:"torch,omitempty"`

	// mpi: an MPI launcher that reaches its workers over SSH.
	// +optional
	MPI *MPIMLPolicySource `json:"mpi,omitempty"`

	// jax: JAX's distributed initialization.
	// +optional
	JAX *JAXMLPolicySource `json:"jax,omitempty"`

	// xgboost: XGBoost's Rabit tracker.
	// +optional
	XGBoost *XGBoostMLPolicySource `json:"xgboost,omitempty"`

	// flux: the Flux HPC workload manager.
	// +optional
	Flux *FluxMLPolicySource `json:"flux,omitempty"`
}

// TorchMLPolicySource configures PyTorch.
type TorchMLPolicySource struct {
	// envInjection puts the PET_* variables into more containers than the training
	// container, such as an init container that checks the network before training.
	// +optional
	EnvInjection *EnvInjection `json:"envInjection,omitempty"`
}

// EnvInjection names containers that get the rendezvous variables.
type EnvInjection struct {
	// targets are the containers, one entry a replicatedJob.
	// +listType=map
	// +listMapKey=jobName
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Targets []EnvInjectionTarget `json:"targets,omitempty"`
}

// EnvInjectionTarget names containers of one replicatedJob.
type EnvInjectionTarget struct {
	// jobName is the name of a replicatedJob of the template.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	JobName string `json:"jobName,omitempty"`

	// containerNames are init containers, native sidecars or containers of that job.
	// The training container `node` always has the variables and must not be named.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c == 'node')",message="the container node always has these variables: leave it out of containerNames"
	// +required
	ContainerNames []string `json:"containerNames,omitempty"`
}

// JAXMLPolicySource configures JAX; there is nothing to configure.
type JAXMLPolicySource struct{}

// XGBoostMLPolicySource configures XGBoost; there is nothing to configure.
type XGBoostMLPolicySource struct{}

// MPIImplementation is an MPI implementation.
type MPIImplementation string

// Known MPI implementations. Only OpenMPI is supported.
const (
	MPIImplementationOpenMPI MPIImplementation = "OpenMPI"
)

// MPIMLPolicySource configures MPI.
type MPIMLPolicySource struct {
	// numProcPerNode is the number of slots of each node in the hostfile.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`

	// mpiImplementation says which variables and hostfile format to use.
	// +kubebuilder:default=OpenMPI
	// +kubebuilder:validation:Enum=OpenMPI;""
	// +optional
	MPIImplementation *MPIImplementation `json:"mpiImplementation,omitempty"`

	// sshAuthMountPath is the folder in which the SSH keys are mounted.
	// +kubebuilder:default=/root/.ssh
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	SSHAuthMountPath *string `json:"sshAuthMountPath,omitempty"`

	// runLauncherAsNode makes the launcher the first training node.
	// +kubebuilder:default=false
	// +optional
	RunLauncherAsNode *bool `json:"runLauncherAsNode,omitempty"`
}

// FluxMLPolicySource configures Flux.
type FluxMLPolicySource struct {
	// numProcPerNode is the number of processes on every node.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`
}

// PodGroupPolicy asks for gang scheduling by one of the supported schedulers.
// +kubebuilder:validation:XValidation:rule="[has(self.coscheduling), has(self.volcano)].filter(x, x).size() <= 1",message="only one of coscheduling and volcano may be set: remove the other"
type PodGroupPolicy struct {
	PodGroupPolicySource `json:",inline"`
}

// PodGroupPolicySource is one scheduler.
type PodGroupPolicySource struct {
	// coscheduling of the Kubernetes scheduler plugins.
	// +optional
	Coscheduling *CoschedulingPodGroupPolicySource `json:"coscheduling,omitempty"`

	// volcano: the Volcano scheduler.
	// +optional
	Volcano *VolcanoPodGroupPolicySource `json:"volcano,omitempty"`
}

// CoschedulingPodGroupPolicySource configures coscheduling.
type CoschedulingPodGroupPolicySource struct {
	// scheduleTimeoutSeconds is how long the scheduler tries to place all pods.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// VolcanoPodGroupPolicySource configures Volcano.
type VolcanoPodGroupPolicySource struct {
	// networkTopology asks for nodes that are near each other.
	// +optional
	NetworkTopology *VolcanoNetworkTopology `json:"networkTopology,omitempty"`
}

// VolcanoNetworkTopology mirrors networkTopology of Volcano's PodGroup.
type VolcanoNetworkTopology struct {
	// mode is hard (must) or soft (should).
	// +kubebuilder:default=hard
	// +kubebuilder:validation:Enum=hard;soft
	// +optional
	Mode string `json:"mode,omitempty"`

	// highestTierAllowed is the highest tier of the network the job may span.
	// +kubebuilder:default=1
	// +optional
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`

	// highestTierName is the same by the tier's name.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HighestTierName string `json:"highestTierName,omitempty"`
}
