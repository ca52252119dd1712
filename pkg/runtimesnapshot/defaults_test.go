package runtimesnapshot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// schema is the part of a CRD's schema that these tests read.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Default    any               `json:"default"`
}

// runtimeSchemas are the schemas of `spec` in the CRDs of both runtime kinds.
func runtimeSchemas(t *testing.T) map[string]schema {
	t.Helper()
	files, err := filepath.Glob("../../artifacts/crds/*runtimes.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("found %v, %v; want the CRDs of two kinds", files, err)
	}
	schemas := map[string]schema{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}
	return schemas
}

// defaultsBelow collects the defaults of a schema by path, and a document in which
// every object is present and empty, so that every default has a place to go.
func defaultsBelow(s schema, path string, found map[string]any) map[string]any {
	document := map[string]any{}
	for name, property := range s.Properties {
		at := path + "." + name
		if property.Default != nil {
			found[at] = property.Default
		} else if len(property.Properties) > 0 {
			document[name] = defaultsBelow(property, at, found)
		}
	}
	return document
}

// leaves flattens a document to the values that are not objects, by path.
func leaves(document map[string]any, path string, found map[string]any) {
	for name, value := range document {
		if object, ok := value.(map[string]any); ok {
			leaves(object, path+"."+name, found)
		} else {
			found[path+"."+name] = value
		}
	}
}

func TestDefaultsAreThoseOfTheCRD(t *testing.T) {
	for kind, spec := range runtimeSchemas(t) {
		for _, policy := range []string{"mlPolicy", "podGroupPolicy"} {
			t.Run(kind+" "+policy, func(t *testing.T) {
				want := map[string]any{}
				empty := defaultsBelow(spec.Properties[policy], policy, want)
				if len(want) == 0 {
					t.Fatal("the CRD has no defaults here: does the test look in the right place?")
				}
				got := map[string]any{}
				leaves(throughDefaults(t, policy, empty), policy, got)
				expect(t, "defaults", want, got)
			})
		}
		t.Run(kind+" template", func(t *testing.T) {
			at := spec
			for _, name := range []string{"template", "spec", "replicatedJobs"} {
				at = at.Properties[name]
			}
			runtime := &trainer.TrainingRuntimeSpec{}
			runtime.Template.Spec.ReplicatedJobs = append(runtime.Template.Spec.ReplicatedJobs, builders.ReplicatedJob("node", ""))
			runtime.Template.Spec.ReplicatedJobs[0].Replicas = 0
			setDefaults(runtime)
			expect(t, "replicas", at.Items.Properties["replicas"].Default, any(float64(runtime.Template.Spec.ReplicatedJobs[0].Replicas)))
		})
	}
}

// throughDefaults reads a policy, fills in the defaults, and writes it again.
func throughDefaults(t *testing.T, policy string, document map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(map[string]any{policy: document})
	if err != nil {
		t.Fatal(err)
	}
	spec := &trainer.TrainingRuntimeSpec{}
	if err := yaml.UnmarshalStrict(raw, spec); err != nil {
		t.Fatal(err)
	}
	setDefaults(spec)
	if raw, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	result := map[string]map[string]any{}
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	return result[policy]
}

func TestDefaultsReplaceNothing(t *testing.T) {
	spec := trainer.TrainingRuntimeSpec{
		MLPolicy: &trainer.MLPolicy{MLPolicySource: trainer.MLPolicySource{
			MPI: &trainer.MPIMLPolicySource{
				NumProcPerNode: ptr.To[int32](4), MPIImplementation: ptr.To[trainer.MPIImplementation](""),
				SSHAuthMountPath: ptr.To(""), RunLauncherAsNode: ptr.To(true),
			},
			Flux: &trainer.FluxMLPolicySource{NumProcPerNode: ptr.To[int32](0)},
		}},
		PodGroupPolicy: &trainer.PodGroupPolicy{PodGroupPolicySource: trainer.PodGroupPolicySource{
			Coscheduling: &trainer.CoschedulingPodGroupPolicySource{ScheduleTimeoutSeconds: ptr.To[int32](0)},
			Volcano: &trainer.VolcanoPodGroupPolicySource{NetworkTopology: &trainer.VolcanoNetworkTopology{
				Mode: "soft", HighestTierAllowed: ptr.To(0),
			}},
		}},
	}
	job := builders.ReplicatedJob("node", "")
	job.Replicas = 3
	spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, job)
	want := spec.DeepCopy()
	setDefaults(&spec)
	expect(t, "spec", want, &spec)
}

func TestDefaultsAddNoPolicy(t *testing.T) {
	cases := map[string]trainer.TrainingRuntimeSpec{
		"nothing":              {},
		"an empty ML policy":   {MLPolicy: &trainer.MLPolicy{}},
		"an empty gang policy": {PodGroupPolicy: &trainer.PodGroupPolicy{}},
		"volcano without a topology": {PodGroupPolicy: &trainer.PodGroupPolicy{
			PodGroupPolicySource: trainer.PodGroupPolicySource{Volcano: &trainer.VolcanoPodGroupPolicySource{}},
		}},
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			want := spec.DeepCopy()
			setDefaults(&spec)
			expect(t, "spec", want, &spec)
		})
	}
}

func TestDecodeFillsInWhatAnOldSnapshotLacks(t *testing.T) {
	got := mustDecode(t, &corev1.ConfigMap{Data: map[string]string{
		DataKey: document("TrainingRuntime", "{mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: [{name: node}]}}}"),
	}})
	expect(t, "mpi", &trainer.MPIMLPolicySource{
		NumProcPerNode: ptr.To[int32](1), MPIImplementation: ptr.To(trainer.MPIImplementationOpenMPI),
		SSHAuthMountPath: ptr.To("/root/.ssh"), RunLauncherAsNode: ptr.To(false),
	}, got.Spec.MLPolicy.MPI)
	expect(t, "replicas", int32(1), got.Spec.Template.Spec.ReplicatedJobs[0].Replicas)
}

func TestDecodeReadsFluxSnapshotsOfBeforeProcessesWereANumber(t *testing.T) {
	got := mustDecode(t, &corev1.ConfigMap{Data: map[string]string{
		DataKey: document("TrainingRuntime", "{mlPolicy: {flux: {numProcPerNode: auto}}}"),
	}})
	expect(t, "flux", &trainer.FluxMLPolicySource{NumProcPerNode: ptr.To[int32](1)}, got.Spec.MLPolicy.Flux)
}
