// Package api tests the CRDs as an API server enforces them: what it fills in, what it
// refuses and in which words, what kubectl shows. No controller runs.
package api

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.MainWithoutController(m, cluster.APIServerOnly(), &env, harness.Start))
}

// The resources under test.
var (
	trainJobs       = trainer.SchemeGroupVersion.WithResource("trainjobs")
	runtimes        = trainer.SchemeGroupVersion.WithResource("trainingruntimes")
	clusterRuntimes = trainer.SchemeGroupVersion.WithResource("clustertrainingruntimes")
	kinds           = map[schema.GroupVersionResource]string{
		trainJobs: trainer.TrainJobKind, runtimes: trainer.TrainingRuntimeKind, clusterRuntimes: trainer.ClusterTrainingRuntimeKind,
	}
)

const namespace = metav1.NamespaceDefault

// client of a resource, in the namespace of all tests if it has namespaces.
func client(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == clusterRuntimes {
		return env.Dynamic.Resource(resource)
	}
	return env.Dynamic.Resource(resource).Namespace(namespace)
}

// object of a kind from YAML layers, each merged over those before it as a JSON merge
// patch does: a list replaces a list.
func object(t *testing.T, resource schema.GroupVersionResource, layers ...string) *unstructured.Unstructured {
	t.Helper()
	all := map[string]any{"apiVersion": trainer.SchemeGroupVersion.String(), "kind": kinds[resource]}
	for _, layer := range layers {
		var parsed map[string]any
		// This decoder keeps whole numbers whole.
		if err := json.Unmarshal(toJSON(t, layer), &parsed); err != nil {
			t.Fatalf("%v in:\n%s", err, layer)
		}
		merge(all, parsed)
	}
	return &unstructured.Unstructured{Object: all}
}

func merge(base, over map[string]any) {
	for key, value := range over {
		child, isMap := value.(map[string]any)
		below, wasMap := base[key].(map[string]any)
		switch {
		case value == nil:
			delete(base, key)
		case isMap && wasMap:
			merge(below, child)
		default:
			base[key] = value
		}
	}
}

// create makes an object that stays until the end of the test.
func create(t *testing.T, resource schema.GroupVersionResource, layers ...string) *unstructured.Unstructured {
	t.Helper()
	created, err := client(resource).Create(t.Context(), object(t, resource, layers...), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Gone already is as good.
		_ = client(resource).Delete(context.Background(), created.GetName(), metav1.DeleteOptions{})
	})
	return created
}

// rehearseCreate asks the API server whether it would accept an object.
func rehearseCreate(t *testing.T, resource schema.GroupVersionResource, layers ...string) error {
	t.Helper()
	_, err := client(resource).Create(t.Context(), object(t, resource, layers...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// rehearsePatch asks the API server whether it would accept a merge patch, given in
// YAML, of an object or of one of its subresources.
func rehearsePatch(t *testing.T, resource schema.GroupVersionResource, name, patch string, subresources ...string) error {
	t.Helper()
	_, err := client(resource).Patch(t.Context(), name, types.MergePatchType, toJSON(t, patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

// patch changes an object, or one of its subresources, for real.
func patch(t *testing.T, resource schema.GroupVersionResource, name, patch string, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	changed, err := client(resource).Patch(t.Context(), name, types.MergePatchType, toJSON(t, patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return data
}

// wantRefused checks that an object was refused as invalid, in words that name all of
// the given.
func wantRefused(t *testing.T, err error, names ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("want a refusal as invalid that names %q, got: %v", names, err)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the refusal does not name %q: %v", name, err)
		}
	}
}

// list writes a YAML list of n items, in each of which %d becomes its number.
func list(n int, item string) string {
	var items []string
	for i := range n {
		items = append(items, strings.ReplaceAll(item, "%d", fmt.Sprint(i)))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// atPod writes a patch of the pod of replicatedJob `node` by manager `m`.
func atPod(pod string) string {
	return `spec: {runtimePatches: [{manager: example.com/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [
		{name: node, template: {spec: {template: {spec: ` + pod + `}}}}]}}}}]}`
}
