package api

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// placeholder stands for a quantity in a layer. What takes its place is sent as it is
// written: YAML and Go would make 2 of 2.0.
const placeholder = "QUANTITY"

// quantityPlaces are kinds of places where a kind of ours holds a quantity.
var quantityPlaces = map[string]struct {
	resource schema.GroupVersionResource
	layer    string
}{
	"a limit":             {trainJobs, `spec: {trainer: {resourcesPerNode: {limits: {cpu: QUANTITY}}}}`},
	"a request":           {trainJobs, `spec: {trainer: {resourcesPerNode: {requests: {memory: QUANTITY}}}}`},
	"a variable":          {trainJobs, `spec: {trainer: {env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: QUANTITY}}}]}}`},
	"a volume of a patch": {trainJobs, atPod(`{volumes: [{name: v, emptyDir: {sizeLimit: QUANTITY}}]}`)},
	"a container":         {runtimes, podOf(`containers: [{name: node, image: "node:1", resources: {limits: {cpu: QUANTITY}}}]`)},
	"a pod":               {clusterRuntimes, podOf(`resources: {limits: {memory: QUANTITY}}, containers: [{name: node, image: "node:1"}]`)},
	"a pod's overhead":    {clusterRuntimes, podOf(`overhead: {cpu: QUANTITY}, containers: [{name: node, image: "node:1"}]`)},
	"a volume's claim": {runtimes, podOf(`containers: [{name: node, image: "node:1"}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {
		accessModes: [ReadWriteOnce], resources: {requests: {storage: QUANTITY}}}}}}]`)},
}

func podOf(fields string) string {
	return `spec: {template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
		spec: {template: {spec: {` + fields + `}}}}}]}}}`
}

// written is an object in JSON, with a quantity in the form given.
func written(t *testing.T, resource schema.GroupVersionResource, quantity string, layers ...string) []byte {
	t.Helper()
	data, err := object(t, resource, layers...).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(data), `"`+placeholder+`"`, quantity))
}

func post(resource schema.GroupVersionResource, data []byte) *rest.Request {
	request := env.Trainer.TrainerV1alpha1().RESTClient().Post().Resource(resource.Resource).
		SetHeader("Content-Type", "application/json").Body(data)
	if resource != clusterRuntimes {
		request = request.Namespace(namespace)
	}
	return request
}

func TestQuantitiesAreOfAnyFormThatKubernetesAccepts(t *testing.T) {
	t.Parallel()
	good := []string{`2`, `2.0`, `0.5`, `0`, `1e3`, `9007199254740993`, `"2"`, `"0.5"`, `".5"`, `"5."`, `"500m"`, `"1.5Gi"`, `"1e3"`, `"1E-3"`, `"+1"`, `"-0"`, `"100n"`}
	// Were one of these stored, clients with types could read no list any more.
	bad := []string{`true`, `false`, `[]`, `[1]`, `{}`, `{"a": 1}`, `""`, `"a"`, `"1 Gi"`, `"1GiB"`, `"0x10"`, `"--1"`, `"1e"`}
	for where, place := range quantityPlaces {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			base := baseJob
			if place.resource != trainJobs {
				base = baseRuntime
			}
			rehearse := func(quantity string) error {
				return post(place.resource, written(t, place.resource, quantity, base, place.layer)).Param("dryRun", "All").Do(t.Context()).Error()
			}
			for _, quantity := range good {
				if err := rehearse(quantity); err != nil {
					t.Errorf("%s: %v", quantity, err)
				}
			}
			for _, quantity := range bad {
				if rehearse(quantity) == nil {
					t.Errorf("%s is accepted", quantity)
				}
			}
		})
	}
}

func TestNegativeResourcesAreRefused(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"limits", "requests"} {
		for _, quantity := range []string{`-1`, `-1.0`, `-0.5`, `"-1"`, `"-500m"`, `"-.5"`, `"-0.1"`, `"-00.01Gi"`} {
			data := written(t, trainJobs, quantity, baseJob, `spec: {trainer: {resourcesPerNode: {`+where+`: {cpu: QUANTITY}}}}`)
			wantRefused(t, post(trainJobs, data).Param("dryRun", "All").Do(t.Context()).Error(), "spec.trainer.resourcesPerNode."+where+".cpu")
		}
	}
}

// The Kubeflow SDK sends every quantity as a number with decimals; Kueue then writes the
// job back in Go's way.
func TestNumbersWithDecimalsReadBackAsQuantities(t *testing.T) {
	t.Parallel()
	jobs := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	created := &trainer.TrainJob{}
	if err := post(trainJobs, written(t, trainJobs, `{"cpu": 2.0, "nvidia.com/gpu": 1.0, "memory": 1.5e3, "example.com/a": 0.25, "example.com/b": null}`,
		baseJob, `metadata: {name: null, generateName: decimals-}`, `spec: {suspend: true, trainer: {resourcesPerNode: {limits: QUANTITY}}}`)).
		Do(t.Context()).Into(created); err != nil {
		t.Fatal(err)
	}
	job, err := jobs.Get(t.Context(), created.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job.Spec.Suspend = new(false)
	if job, err = jobs.Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[corev1.ResourceName]string{"cpu": "2", "nvidia.com/gpu": "1", "memory": "1500", "example.com/a": "250m"}
	limits := job.Spec.Trainer.ResourcesPerNode.Limits
	if len(limits) != len(want) {
		t.Errorf("limits are %v, want %v", limits, want)
	}
	for name, value := range want {
		if got := limits[name]; got.Cmp(resource.MustParse(value)) != 0 {
			t.Errorf("%s is %s, want %s", name, got.String(), value)
		}
	}
}

func TestServerSideApplyOwnsEachQuantity(t *testing.T) {
	t.Parallel()
	job := create(t, trainJobs, baseJob, `metadata: {name: null, generateName: applied-}`, `spec: {trainer: {resourcesPerNode: {}}}`)
	apply := func(manager, limits string) *trainer.TrainJob {
		t.Helper()
		data := written(t, trainJobs, limits, `metadata: {name: `+job.GetName()+`}`, `spec: {trainer: {resourcesPerNode: {limits: QUANTITY}}}`)
		applied, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), job.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
	apply("a", `{"cpu": 2.0}`)
	apply("b", `{"memory": "1Gi"}`)
	limits := apply("a", `{"example.com/a": 0.5}`).Spec.Trainer.ResourcesPerNode.Limits
	if _, cpu := limits["cpu"]; len(limits) != 2 || cpu {
		t.Errorf("limits are %v after a has applied another than cpu, want a's and b's", limits)
	}
}
