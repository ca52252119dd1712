package webhook

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/validation"
)

type groupKind = schema.GroupKind

// checkRuntime reviews runtimes of both kinds.
func checkRuntime(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !reviewed(request) {
		return allowed()
	}
	switch {
	case request.Resource.Group != trainer.GroupName:
	case request.Resource.Resource == "trainingruntimes":
		c, err := decodeChange[trainer.TrainingRuntime](request)
		if err != nil {
			return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		var old *trainer.TrainingRuntimeSpec
		if c.old != nil {
			old = &c.old.Spec
		}
		return judgeRuntime(trainer.TrainingRuntimeKind, &c.object.ObjectMeta, old, &c.object.Spec)
	case request.Resource.Resource == "clustertrainingruntimes":
		c, err := decodeChange[trainer.ClusterTrainingRuntime](request)
		if err != nil {
			return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		var old *trainer.TrainingRuntimeSpec
		if c.old != nil {
			old = &c.old.Spec
		}
		return judgeRuntime(trainer.ClusterTrainingRuntimeKind, &c.object.ObjectMeta, old, &c.object.Spec)
	}
	return misdirected(PathValidateRuntime, request)
}

func judgeRuntime(kind string, meta *metav1.ObjectMeta, old, spec *trainer.TrainingRuntimeSpec) *admissionv1.AdmissionResponse {
	if !meta.DeletionTimestamp.IsZero() || (old != nil && equality.Semantic.DeepEqual(old, spec)) {
		return allowed()
	}
	return verdictOn(trainer.Kind(kind), meta, validation.Runtime(meta, spec))
}
