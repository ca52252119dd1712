package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Variables that jax.distributed.initialize is called with.
const (
	jaxNumProcesses       = "JAX_NUM_PROCESSES"
	jaxProcessID          = "JAX_PROCESS_ID"
	jaxCoordinatorAddress = "JAX_COORDINATOR_ADDRESS"
)

// buildJAX configures JAX's distributed initialization. One process drives all
// devices of its node, so there are as many processes as nodes, and numProcPerNode
// has no effect, as in Kubeflow Trainer.
func buildJAX(in Input) (Output, field.ErrorList) {
	return rendezvous(in,
		corev1.EnvVar{Name: jaxNumProcesses, Value: strconv.Itoa(int(in.Nodes))},
		corev1.EnvVar{Name: jaxProcessID, ValueFrom: completionIndex()},
		corev1.EnvVar{Name: jaxCoordinatorAddress, Value: meetingPoint(in)},
	)
}
