package webhook

import (
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trainjob/controller/generated/clientset/versioned/scheme"
)

// change is one create or update of an object.
type change[T any] struct {
	// old is nil for a create.
	old, object *T
}

// resourceMetadata is what every object of ours has.
type resourceMetadata[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// decodeChange reads the objects of a request.
func decodeChange[T any, P resourceMetadata[T]](request *admissionv1.AdmissionRequest) (change[T], error) {
	var c change[T]
	var err error
	if c.object, err = decode[T, P](request.Object.Raw); err != nil {
		return c, fmt.Errorf("object: %w", err)
	}
	if request.Operation == admissionv1.Update {
		if c.old, err = decode[T, P](request.OldObject.Raw); err != nil {
			return c, fmt.Errorf("oldObject: %w", err)
		}
	}
	// At a create, the API server knows the namespace from the address.
	if object := P(c.object); object.GetNamespace() == "" {
		object.SetNamespace(request.Namespace)
	}
	return c, nil
}

// decode reads an object of one kind. Fields that this program does not know are passed
// over: the CRD may be newer.
func decode[T any, P resourceMetadata[T]](raw []byte) (*T, error) {
	decoded, kind, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	object, ok := decoded.(P)
	if !ok {
		return nil, fmt.Errorf("it is a %s", kind)
	}
	return object, nil
}

// reviewed says whether a request is one that is judged at all. Others are let through:
// nothing that is deleted, connected to, or below the object is ever in the way.
func reviewed(request *admissionv1.AdmissionRequest) bool {
	return request.SubResource == "" &&
		(request.Operation == admissionv1.Create || request.Operation == admissionv1.Update)
}

// misdirected is the answer to a kind that a path is not for.
func misdirected(path string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf(
		"%s does not review %s.%s: correct the rules of the webhook configuration", path, request.Resource.Resource, request.Resource.Group))
}
