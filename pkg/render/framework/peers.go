package framework

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Peers are the containers of Spec, besides Node, that do a training node's work and
// so get the image, the variables and the resources of spec.trainer too, but keep their
// own command. Nodes and Node.Resources of the input need not be final.
func Peers(in Input) []*corev1.Container {
	if in.Policy != nil && in.Policy.MPI != nil {
		return mpiPeers(in)
	}
	return nil
}

// TrainedJobs names the replicatedJobs with a container that spec.trainer reaches.
func TrainedJobs(policy *v1alpha1.MLPolicy, trainerJob string) []string {
	if policy != nil && policy.MPI != nil && trainerJob != mpiWorkers {
		return []string{trainerJob, mpiWorkers}
	}
	return []string{trainerJob}
}
