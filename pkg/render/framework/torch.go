package framework

import (
	"fmt"
	"strconv"

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
// containers that envInjection names. torchtune, which starts torchrun itself, gets
// the rendezvous on its command line.
func buildTorch(in Input) (Output, field.ErrorList) {
	node := Addition{
		ReplicatedJob: in.TrainerJob.Name,
		Container:     in.Node.Name,
		Env:           torchEnv(in),
		Ports:         []corev1.ContainerPort{rendezvousPort()},
	}
	errs := checkAddressable(in)
	if leavesRecipeOpen(in) {
		command, invalid := torchtuneCommand(in)
		node.Env, node.Command = torchTopology(in), command
		errs = append(errs, invalid...)
	} else {
		errs = append(errs, checkOwnRendezvous(in)...)
	}
	if len(errs) > 0 {
		return Output{}, errs
	}
	targets, errs := torchTargets(in)
	return Output{DNSHostnames: true, Containers: append([]Addition{node}, targets...)}, errs
}

// torchEnv makes the five variables anew for each container, so that the containers
// share no pointers.
func torchEnv(in Input) []corev1.EnvVar {
	return append(torchTopology(in),
		corev1.EnvVar{Name: petMasterAddr, Value: firstHost(in)},
		corev1.EnvVar{Name: petMasterPort, Value: strconv.Itoa(RendezvousPort)},
	)
}

// torchTopology says how many nodes and processes there are, and which one this is.
func torchTopology(in Input) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: petNNodes, Value: strconv.Itoa(int(in.Nodes))},
		{Name: petNProcPerNode, Value: torchProcesses(in)},
		{Name: petNodeRank, ValueFrom: completionIndex()},
	}
}

// torchProcesses is what the user says, else `auto` where there are GPUs, or devices of
// resource claims, of which only the cluster knows how many there are: torchrun then
// counts them itself. On CPUs `auto` would count those of the machine and not those of
// the container, so the number is given.
func torchProcesses(in Input) string {
	switch {
	case in.Trainer != nil && in.Trainer.NumProcPerNode != nil:
		return strconv.Itoa(int(*in.Trainer.NumProcPerNode))
	case GPUs(&in.Node.Resources) > 0 || len(in.Node.Resources.Claims) > 0:
		return "auto"
	default:
		return strconv.FormatInt(nodeCPUs(in), 10)
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
	type place struct{ rjob, container string }
	there, containers := map[place]bool{}, Containers{}
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
			at := place{rjob.Name, name}
			switch {
			case name == v1alpha1.ContainerNode || there[at]:
			case containers.Find(rjob, name) == nil:
				errs = append(errs, missing(path.Index(i).Child("containerNames").Index(k), name, fmt.Sprintf(
					"name a container or init container of replicatedJob %s (%s) or remove it from the target",
					rjob.Name, ContainerNames(pod.InitContainers, pod.Containers))))
			default:
				there[at] = true
				additions = append(additions, Addition{ReplicatedJob: rjob.Name, Container: name, Env: torchEnv(in)})
			}
		}
	}
	return additions, errs
}

func missing(path *field.Path, name, remedy string) *field.Error {
	err := field.NotFound(path, name)
	err.Detail = remedy
	return err
}
