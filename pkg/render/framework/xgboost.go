package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Variables of XGBoost's tracker, which the first node runs.
const (
	dmlcTrackerURI  = "DMLC_TRACKER_URI"
	dmlcTrackerPort = "DMLC_TRACKER_PORT"
	dmlcTaskID      = "DMLC_TASK_ID"
	dmlcNumWorker   = "DMLC_NUM_WORKER"
)

// buildXGBoost configures XGBoost's tracker. A worker uses one GPU, or without GPUs
// all CPUs of its node, so the resources say how many there are, and numProcPerNode
// has no effect, as in Kubeflow Trainer.
func buildXGBoost(in Input) (Output, field.ErrorList) {
	workers := int64(in.Nodes) * max(GPUs(&in.Node.Resources), 1)
	return rendezvous(in,
		corev1.EnvVar{Name: dmlcTrackerURI, Value: firstHost(in)},
		corev1.EnvVar{Name: dmlcTrackerPort, Value: strconv.Itoa(RendezvousPort)},
		corev1.EnvVar{Name: dmlcTaskID, ValueFrom: completionIndex()},
		corev1.EnvVar{Name: dmlcNumWorker, Value: strconv.FormatInt(workers, 10)},
	)
}
