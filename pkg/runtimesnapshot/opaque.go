package runtimesnapshot

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// EncodeOpaque makes the snapshot of a runtime of a kind that is not understood here:
// all of it but its status, with the same part of its metadata as of other runtimes, as
// the API server returned it. The object is not written to.
func EncodeOpaque(job *trainer.TrainJob, runtime *unstructured.Unstructured) (*corev1.ConfigMap, error) {
	document := maps.Clone(runtime.Object)
	delete(document, "status")
	metadata := Metadata{
		Name: runtime.GetName(), Namespace: runtime.GetNamespace(),
		Labels: runtime.GetLabels(), Annotations: withoutLastApplied(runtime.GetAnnotations()),
	}
	data, err := fit(runtime.GetKind(), metadata, func(metadata Metadata) ([]byte, error) {
		document["metadata"] = metadata
		return lossless(document)
	})
	if err != nil {
		return nil, err
	}
	return configMap(job, string(data)), nil
}
