package framework

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RendezvousPort is the port of the first training node on which the others meet it.
const RendezvousPort = 29500

// rendezvousPort has no name: a name could be one that the pod uses already.
func rendezvousPort() corev1.ContainerPort {
	return corev1.ContainerPort{ContainerPort: RendezvousPort, Protocol: corev1.ProtocolTCP}
}

// firstHost is the DNS name of the pod with index 0 of the trainer job, in the
// subdomain that JobSet makes for the job.
func firstHost(in Input) string { return host(in, in.TrainerJob.Name, 0) }

// host is the DNS name of a pod of a replicatedJob with one replica.
func host(in Input, rjob string, index int32) string {
	return fmt.Sprintf("%s-%s-0-%d.%s", in.JobName, rjob, index, subdomain(in))
}

func subdomain(in Input) string {
	if in.Spec.Network != nil && in.Spec.Network.Subdomain != "" {
		return in.Spec.Network.Subdomain
	}
	return in.JobName
}

// meetingPoint is the address at which the training nodes meet.
func meetingPoint(in Input) string {
	return fmt.Sprintf("%s:%d", firstHost(in), RendezvousPort)
}

// completionIndex reads the index of the pod in its Job.
func completionIndex() *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: fmt.Sprintf("metadata.annotations['%s']", batchv1.JobCompletionIndexAnnotation),
	}}
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

// rendezvous is what frameworks add that need variables and the port in the training
// container, and nothing else.
func rendezvous(in Input, env ...corev1.EnvVar) (Output, field.ErrorList) {
	if errs := checkAddressable(in); len(errs) > 0 {
		return Output{}, errs
	}
	return Output{DNSHostnames: true, Containers: []Addition{{
		ReplicatedJob: in.TrainerJob.Name,
		Container:     in.Node.Name,
		Env:           env,
		Ports:         []corev1.ContainerPort{rendezvousPort()},
	}}}, nil
}
