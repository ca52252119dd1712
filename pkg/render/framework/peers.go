package framework

import corev1 "k8s.io/api/core/v1"

// Peers are the containers of Spec, besides Node, that do a training node's work and
// so get the image, the variables and the resources of spec.trainer too, but keep their
// own command. Nodes and Node.Resources of the input need not be final.
func Peers(in Input) []*corev1.Container {
	if in.Policy != nil && in.Policy.MPI != nil {
		return mpiPeers(in)
	}
	return nil
}
