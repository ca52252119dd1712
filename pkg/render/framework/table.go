package framework

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Input is what a framework may look at. It must not be written to.
type Input struct {
	// JobName is the name of the TrainJob and of its JobSet; UID is the TrainJob's.
	JobName string
	UID     types.UID
	// Trainer is spec.trainer of the TrainJob; nil when the user gave none.
	Trainer *v1alpha1.Trainer
	// Policy is spec.mlPolicy of the runtime; nil when it has none.
	Policy *v1alpha1.MLPolicy
	// Spec is the template with the patches, spec.trainer and spec.initializer in it.
	Spec *jobsetv1alpha2.JobSetSpec
	// TrainerJob is the replicatedJob of Spec that trains, Node its main container.
	TrainerJob *jobsetv1alpha2.ReplicatedJob
	Node       *corev1.Container
	// Nodes is the number of training nodes.
	Nodes int32
	// RuntimeName is the name of the runtime.
	RuntimeName string
	// RuntimeCommand is command and arguments of the training container as the runtime
	// has them, before spec.trainer replaces one or both.
	RuntimeCommand []string
}

// Output is what a framework adds.
type Output struct {
	// Containers says what is added to which container, in order.
	Containers []Addition
	// Pods says what is changed about the pods of which replicatedJob, in order.
	Pods []PodAddition
	// Removed names replicatedJobs that are left out, with whatever refers to them.
	Removed []string
	// DNSHostnames is true when the pods look each other up by name.
	DNSHostnames bool
	// ConfigMaps are the files that the pods mount.
	ConfigMaps []Files
	// Keys is the Secret that the pods mount; nil when they need none.
	Keys *Keys
	// Gang names the replicatedJob whose pods are the training nodes when that is not
	// the one which trains: a launcher starts when its workers are ready.
	Gang string
}

// Files is a ConfigMap by its name and data.
type Files struct {
	Name string
	Data map[string]string
}

// Keys is a Secret by its name. What is in it is random, so it is made when the Secret
// is created and not here.
type Keys struct {
	Name string
	Kind KeyKind
}

// ownSecretName has a part of the job's UID, so that a Secret of this name is always the
// job's own, whose content nobody has to read.
func ownSecretName(in Input, purpose string) string {
	return fmt.Sprintf("%s-%s-%s", in.JobName, purpose, in.UID[:min(len(in.UID), 8)])
}

// KeyKind says which keys a Secret holds.
type KeyKind string

// PodAddition is what all pods of one replicatedJob get.
type PodAddition struct {
	ReplicatedJob string
	// Count is the number of its pods; nil leaves it as it is.
	Count *int32
	// Volumes replace those of the same name.
	Volumes []corev1.Volume
	// InitContainers run after those of the template.
	InitContainers []corev1.Container
}

// Addition is what one container gets. Its values belong to the receiver: no two
// additions share memory.
type Addition struct {
	// ReplicatedJob and Container name a container, or an init container, of the template.
	ReplicatedJob string
	Container     string
	// Env stands before all other variables and replaces those of the same name.
	Env []corev1.EnvVar
	// Ports are added unless the container has the same number and protocol.
	Ports []corev1.ContainerPort
	// Mounts replace those at the same path.
	Mounts []corev1.VolumeMount
	// Command is added at the end of the container's command.
	Command []string
	// Wrapper goes before the container's command, which it starts.
	Wrapper []string
}

// entry is one framework.
type entry struct {
	// name is the name of its field in spec.mlPolicy.
	name     string
	selected func(*v1alpha1.MLPolicy) bool
	build    func(Input) (Output, field.ErrorList)
	// processes: the number of processes of a node is the user's to choose.
	processes bool
}

// table lists the frameworks in the order of the fields of MLPolicySource.
var table = []entry{
	{"torch", func(p *v1alpha1.MLPolicy) bool { return p.Torch != nil }, buildTorch, true},
	{"mpi", func(p *v1alpha1.MLPolicy) bool { return p.MPI != nil }, buildMPI, true},
	{"jax", func(p *v1alpha1.MLPolicy) bool { return p.JAX != nil }, buildJAX, false},
	{"xgboost", func(p *v1alpha1.MLPolicy) bool { return p.XGBoost != nil }, buildXGBoost, false},
	{"flux", func(p *v1alpha1.MLPolicy) bool { return p.Flux != nil }, buildFlux, true},
}

// UsesNumProcPerNode says whether spec.trainer.numProcPerNode means anything under the
// policy, and names its framework for messages.
func UsesNumProcPerNode(policy *v1alpha1.MLPolicy) (used bool, name string) {
	if policy != nil {
		for _, e := range table {
			if e.selected(policy) {
				return e.processes, e.name
			}
		}
	}
	return false, "none"
}

// policyPath is where frameworks are configured in a runtime.
func policyPath() *field.Path { return field.NewPath("spec", "mlPolicy") }

// Build returns what the framework of the policy adds. A policy without a framework,
// and no policy at all, add nothing.
func Build(in Input) (Output, field.ErrorList) {
	if in.Policy == nil {
		return Output{}, nil
	}
	var chosen []entry
	for _, e := range table {
		if e.selected(in.Policy) {
			chosen = append(chosen, e)
		}
	}
	switch len(chosen) {
	case 0:
		return Output{}, nil
	case 1:
		return chosen[0].build(in)
	}
	names := make([]string, 0, len(chosen))
	for _, e := range chosen {
		names = append(names, e.name)
	}
	return Output{}, field.ErrorList{field.Invalid(policyPath(), strings.Join(names, ", "),
		"a runtime serves one framework: keep one of these fields and remove the others")}
}
