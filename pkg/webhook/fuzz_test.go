package webhook

import (
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trainjob/controller/test/builders"
)

// FuzzHandler sends anything to every path: the answer is either well formed and to the
// uid that was asked with, or says why there was no review. Nothing panics.
func FuzzHandler(f *testing.F) {
	review := func(request string) []byte {
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":` + request + `}`)
	}
	object := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return string(data)
	}
	resource := `"resource":{"group":"trainer.kubeflow.org","version":"v1alpha1","resource":"trainjobs"}`
	job := object(builders.TrainJob("a", builders.TTL(5), builders.Deadline(60), builders.Patches(patching("node"))))
	suspended := object(builders.TrainJob("a", builders.Suspended(true), builders.Patches(patching("worker"))))
	f.Add([]byte(``))
	f.Add([]byte(`{"request":{"uid":"a"}}`))
	f.Add(review(`{"uid":"a"}`))
	f.Add(review(`{"uid":"a","operation":"CREATE",` + resource + `,"object":` + job + `}`))
	f.Add(review(`{"uid":"a","operation":"UPDATE",` + resource + `,"object":` + suspended + `,"oldObject":` + job + `}`))
	f.Add(review(`{"uid":"a","operation":"UPDATE",` + resource + `,"object":` + job + `,"oldObject":null}`))
	f.Add(review(`{"uid":"a","operation":"CREATE",` + resource + `,"object":{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":null}}`))
	f.Add(review(`{"uid":"a","operation":"CREATE","resource":{"group":"trainer.kubeflow.org","resource":"trainingruntimes"},"object":` +
		object(builders.TrainingRuntime("torch", builders.InitializerSpec())) + `}`))
	f.Add(review(`{"uid":"a","operation":"CREATE","resource":{"group":"trainer.kubeflow.org","resource":"clustertrainingruntimes"},"object":` +
		object(builders.ClusterTrainingRuntime("mpi", builders.MPISpec())) + `}`))
	handler := world{cached: []runtime.Object{
		runtimeAt("1", "node"), snapshotFor(f, builders.TrainJob("a"), runtimeAt("1", "node")),
	}}.start(f).handler

	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range Paths() {
			recorder := post(t, handler, path, body)
			if recorder.Code == http.StatusOK {
				asked, err := decodeReview(body)
				if err != nil {
					t.Fatalf("an answer to what is no review: %v", err)
				}
				response := answered(t, recorder, string(asked.Request.UID))
				noPanic(t, response)
				continue
			}
			if recorder.Code != http.StatusBadRequest || recorder.Body.Len() == 0 {
				t.Fatalf("answer %d %q", recorder.Code, recorder.Body)
			}
		}
	})
}

// noPanic tells the answer to a panic from others.
func noPanic(t *testing.T, response *admissionv1.AdmissionResponse) {
	t.Helper()
	if response.Result != nil && response.Result.Message == panicked {
		t.Fatal("it has panicked")
	}
}
