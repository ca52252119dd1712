package framework

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// completionIndex reads the index of the pod in its Job.
func completionIndex() *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: fmt.Sprintf("metadata.annotations['%s']", batchv1.JobCompletionIndexAnnotation),
	}}
}
