package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/harness"
)

// maxAnnotations is what all annotations of an object may have together.
const maxAnnotations = 262144

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Client-side apply keeps the whole manifest in an annotation.
func TestCRDsFitIntoKubectlApply(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(harness.SourceDir(), "artifacts", "crds")
	files, err := filepath.Glob(filepath.Join(folder, "trainer.*.yaml"))
	if err != nil || len(files) != len(kinds) {
		t.Fatalf("%d CRDs in %s (%v), want %d", len(files), folder, err, len(kinds))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes of %d", filepath.Base(file), len(compact), maxAnnotations)
		if len(compact) > maxAnnotations {
			t.Errorf("%s has %d bytes as compact JSON, more than the %d of all annotations", file, len(compact), maxAnnotations)
		}
	}
	env.Kubectl(t, "apply", "-k", folder)
	crds := env.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for resource := range kinds {
		crd, err := crds.Get(t.Context(), resource.GroupResource().String(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var applied map[string]any
		if err := json.Unmarshal([]byte(crd.GetAnnotations()[lastApplied]), &applied); err != nil {
			t.Errorf("%s carries no manifest after kubectl apply: %v", crd.GetName(), err)
		}
	}
	env.Kubectl(t, "apply", "-k", folder) // and once more, over its own annotation
}

func TestKubectlShowsWhatMatters(t *testing.T) {
	t.Parallel()
	create(t, trainJobs, baseJob, `metadata: {name: shown}`, `spec: {ttlSecondsAfterFinished: 7, activeDeadlineSeconds: 8}`)
	patch(t, trainJobs, "shown", `status: {state: Complete, nodes: 6, completionTime: "2026-01-01T00:00:00Z", lifecycle: {ttlSecondsAfterFinished: 7, activeDeadlineSeconds: 8}}`, "status")
	for _, resource := range runtimeKinds {
		create(t, resource, baseRuntime, `metadata: {name: shown, labels: {trainer.kubeflow.org/framework: torch}}`, `spec: {mlPolicy: {numNodes: 5, torch: {}}}`)
	}
	for command, want := range map[string]struct{ columns, values string }{
		"get tj shown":                     {"NAME STATE RUNTIME NODES AGE", "shown Complete torch 6"},
		"get trainjob shown":               {"NAME STATE RUNTIME NODES AGE", "shown Complete torch 6"},
		"get tj shown -o wide":             {"NAME STATE RUNTIME NODES AGE DEADLINE TTL FINISHED PREFLIGHT", "shown Complete torch 6"},
		"get tr shown":                     {"NAME FRAMEWORK NODES AGE", "shown torch 5"},
		"get trainingruntimes shown":       {"NAME FRAMEWORK NODES AGE", "shown torch 5"},
		"get ctr shown":                    {"NAME FRAMEWORK NODES AGE", "shown torch 5"},
		"get clustertrainingruntime shown": {"NAME FRAMEWORK NODES AGE", "shown torch 5"},
	} {
		t.Run(command, func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(env.Kubectl(t, strings.Fields(command)...)), "\n")
			if len(lines) != 2 {
				t.Fatalf("want a head and a line: %q", lines)
			}
			if columns := strings.Join(strings.Fields(lines[0]), " "); columns != want.columns {
				t.Errorf("columns %q, want %q", columns, want.columns)
			}
			if values := strings.Join(strings.Fields(lines[1]), " "); !strings.HasPrefix(values, want.values) {
				t.Errorf("values %q, want %q first", values, want.values)
			}
		})
	}
	wide := strings.Fields(env.Kubectl(t, "get", "tj", "shown", "-o", "wide", "--no-headers"))
	if len(wide) != 8 || wide[5] != "8" || wide[6] != "7" || wide[7] == "<none>" {
		t.Errorf("wide columns %q, want deadline 8, TTL 7 and the time since it finished", wide)
	}
}

func TestKubectlExplainsTheFields(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"trainjob.spec.suspend":                 "boolean",
		"trainjob.spec.ttlSecondsAfterFinished": "integer",
		"trainingruntime.spec.mlPolicy":         "numNodes",
	} {
		// The API server publishes the schema of a CRD a moment after it serves the kind.
		harness.Eventually(t, time.Minute, func() string {
			if out, err := env.TryKubectl(t.Context(), "explain", field); err != nil || !strings.Contains(out, want) {
				return fmt.Sprintf("kubectl explain %s does not say %q: %v\n%s", field, want, err, out)
			}
			return ""
		})
	}
}
