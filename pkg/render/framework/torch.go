package framework

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Variables torchrun reads.
const (
	petNNodes       = "PET_NNODES"
	petNProcPerNode = "PET_NPROC_PER_NODE"
	petNodeRank     = "PET_NODE_RANK"
	petMasterAddr   = "PET_MASTER_ADDR"
	petMasterPort   = "PET_MASTER_PORT"
)

// buildTorch configures torchrun's rendezvous in the training container, and in the
// containers that envInjection names.
func buildTorch(in Input) (Output, field.ErrorList) {
	if errs := append(checkAddressable(in), checkNotTorchtune(in)...); len(errs) > 0 {
		return Output{}, errs
	}
	out := Output{
		DNSHostnames: true,
		Containers: []Addition{{
			ReplicatedJob: in.TrainerJob.Name,
			Container:     in.Node.Name,
			Env:           torchEnv(in),
			Ports:         []corev1.ContainerPort{rendezvousPort()},
		}},
	}
	targets, errs := torchTargets(in)
	out.Containers = append(out.Containers, targets...)
	return out, errs
}

// torchEnv makes the five variables anew for each container, so that the containers
// share no pointers.
func torchEnv(in Input) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: petNNodes, Value: strconv.Itoa(int(in.Nodes))},
		{Name: petNProcPerNode, Value: torchProcesses(in)},
		{Name: petNodeRank, ValueFrom: completionIndex()},
		{Name: petMasterAddr, Value: firstHost(in)},
		{Name: petMasterPort, Value: strconv.Itoa(RendezvousPort)},
	}
}

// torchProcesses is what the user says, else `auto` where there are GPUs: torchrun
// then counts them itself. On CPUs `auto` would count those of the machine and not
// those of the container, so the number is given.
func torchProcesses(in Input) string {
	switch {
	case in.Trainer != nil && in.Trainer.NumProcPerNode != nil:
		return strconv.Itoa(int(*in.Trainer.NumProcPerNode))
	case GPUs(&in.Node.Resources) > 0:
		return "auto"
	default:
		return strconv.FormatInt(CPUs(&in.Node.Resources), 10)
	}
}

// torchTargets resolves envInjection. The training container always has the
// variables, so its name is passed over. A container named twice gets them once.
func torchTargets(in Input) ([]Addition, field.ErrorList) {
	injection := in.Policy.Torch.EnvInjection
	if injection == nil {
		return nil, nil
	}
	var additions []Addition
	var errs field.ErrorList
	path := policyPath().Child("torch", "envInjection", "targets")
	for i, target := range injection.Targets {
		rjob := FindReplicatedJob(in.Spec, target.JobName)
		if rjob == nil {
			errs = append(errs, missing(path.Index(i).Child("jobName"), target.JobName, fmt.Sprintf(
				"name a replicatedJob of the template (%s) or remove the target", JobNames(in.Spec))))
			continue
		}
		pod := &rjob.Template.Spec.Template.Spec
		for k, name := range target.ContainerNames {
			switch {
			case name == v1alpha1.ContainerNode || named(additions, rjob.Name, name):
			case FindAnyContainer(pod, name) == nil:
				errs = append(errs, missing(path.Index(i).Child("containerNames").Index(k), name, fmt.Sprintf(
					"name a container or init container of replicatedJob %s (%s) or remove it from the target",
					rjob.Name, ContainerNames(pod.InitContainers, pod.Containers))))
			default:
				additions = append(additions, Addition{ReplicatedJob: rjob.Name, Container: name, Env: torchEnv(in)})
			}
		}
	}
	return additions, errs
}

func named(additions []Addition, rjob, container string) bool {
	return slices.ContainsFunc(additions, func(a Addition) bool {
		return a.ReplicatedJob == rjob && a.Container == container
	})
}

// checkNotTorchtune refuses runtimes that start torchtune, whose rendezvous is
// configured on the command line and which would ignore the variables.
func checkNotTorchtune(in Input) field.ErrorList {
	if len(in.Node.Command) < 2 || in.Node.Command[0] != "tune" || in.Node.Command[1] != "run" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "trainer", "command"), "tune run",
		"torchtune is not supported by this version of the controller: start the training with torchrun")}
}

// checkAddressable refuses templates in which the nodes would never find each other:
// the rank and the host names are those of indexed Jobs with DNS names.
func checkAddressable(in Input) field.ErrorList {
	var errs field.ErrorList
	template := field.NewPath("spec", "template", "spec")
	if mode := in.TrainerJob.Template.Spec.CompletionMode; mode != nil && *mode != batchv1.IndexedCompletion {
		errs = append(errs, field.Invalid(
			template.Child("replicatedJobs").Key(in.TrainerJob.Name).Child("template", "spec", "completionMode"), *mode,
			"the training nodes take their rank from the completion index: set Indexed or leave the field out"))
	}
	network := in.Spec.Network
	if in.Nodes > 1 && network != nil && network.EnableDNSHostnames != nil && !*network.EnableDNSHostnames {
		errs = append(errs, field.Invalid(template.Child("network", "enableDNSHostnames"), false, fmt.Sprintf(
			"%d training nodes find each other by host name: set true or leave the field out", in.Nodes)))
	}
	return errs
}

func missing(path *field.Path, name, remedy string) *field.Error {
	err := field.NotFound(path, name)
	err.Detail = remedy
	return err
}
