// Package v1alpha1 holds the API types of the group trainer.kubeflow.org:
// TrainJob, TrainingRuntime and ClusterTrainingRuntime, together with the names
// that travel on objects (condition types and reasons, label and annotation keys).
//
// It knows the wire format and the rules the API server can check by itself
// (schema and CEL markers). It holds no behaviour: how a TrainJob moves from one
// state to the next is decided in pkg/trainjob, what is built from it in pkg/render.
//
// +k8s:deepcopy-gen=package
// +groupName=trainer.kubeflow.org
// +kubebuilder:object:generate=false
package v1alpha1
