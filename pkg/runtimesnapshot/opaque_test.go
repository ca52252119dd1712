package runtimesnapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/builders"
)

// asServed is an object as a client gets it from the API server.
func asServed(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := utiljson.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// readBack is what a builder reads out of a snapshot.
func readBack(t *testing.T, data string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(data))
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, data)
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func mustEncodeOpaque(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	cm, err := EncodeOpaque(builders.TrainJob("a"), object)
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data[DataKey]
}

const slurm = `{
	"apiVersion": "slurm.example.com/v1", "kind": "SlurmRuntime",
	"metadata": {
		"name": "big", "namespace": "default", "uid": "1-2-3", "resourceVersion": "7", "generation": 3,
		"creationTimestamp": "2026-03-01T12:00:00Z", "labels": {"team": "vision"},
		"annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		"finalizers": ["example.com/hold"], "managedFields": [{"manager": "kubectl"}]
	},
	"spec": %s,
	"accounts": [{"name": "a", "limits": {}}, {"name": "b"}],
	"status": {"ready": true}
}`

func TestOpaqueSnapshotHoldsAllButTheStatusAndWhatTheAPIServerKeepsForItself(t *testing.T) {
	object := asServed(t, fmt.Sprintf(slurm, `{"partition": "gpu"}`))
	before := object.DeepCopy()
	data := mustEncodeOpaque(t, object)
	expect(t, "the object itself", before, object)
	expect(t, "document", map[string]any{
		"apiVersion": "slurm.example.com/v1", "kind": "SlurmRuntime",
		"metadata": map[string]any{
			"name": "big", "namespace": "default",
			"labels": map[string]any{"team": "vision"}, "annotations": map[string]any{"note": "kept"},
		},
		"spec":     map[string]any{"partition": "gpu"},
		"accounts": []any{map[string]any{"name": "a", "limits": map[string]any{}}, map[string]any{"name": "b"}},
	}, readBack(t, data))
	expect(t, "a second encoding", data, mustEncodeOpaque(t, object))
}

func TestOpaqueSnapshotIsAChildLikeAnyOther(t *testing.T) {
	job := builders.TrainJob("a")
	cm, err := EncodeOpaque(job, asServed(t, fmt.Sprintf(slurm, `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := mustEncode(t, job, FromTrainingRuntime(builders.TrainingRuntime("r", builders.PlainSpec())))
	want.Data = cm.Data
	expect(t, "ConfigMap", want, cm)
}

func TestOpaqueSnapshotLosesNothing(t *testing.T) {
	cases := map[string]string{
		"the largest integers":   `{"a": 9223372036854775807, "b": -9223372036854775808, "c": 9007199254740993}`,
		"more than that":         `{"a": 18446744073709551615, "b": 123456789012345678901234567890}`,
		"fractions":              `{"a": 0.1, "b": 1e-300, "c": 1.7976931348623157e308, "d": 1e21, "e": 2.5}`,
		"zero with a sign":       `{"a": -0.0, "b": 0}`,
		"empty things":           `{"map": {}, "list": [], "text": "", "null": null, "deep": {"list": [{}, [], null]}}`,
		"nested lists":           `{"matrix": [[1, 2], [3, [4, [5]]]]}`,
		"what YAML 1.1 is known": `{"a": "yes", "b": "no", "c": "on", "d": "~", "e": "null", "f": "0x1F", "g": "0o17", "h": "017", "i": "1e3", "j": "1_000", "k": "12:30:45", "l": ".inf", "m": ".nan", "n": "2001-01-01", "o": "=", "p": "<<", "q": "true", "r": "0b11", "s": "-", "t": "!!str", "u": "&a", "v": "*a", "w": "%d"}`,
		"such keys":              `{"yes": 1, "1": 2, "1.5": 3, "null": 4, "~": 5, "<<": {"a": 1}, "": 6, "a: b": 7, "true": 8, "2001-01-01": 9, "- x": 10}`,
		"layout in text":         `{"a": "two\nlines", "b": "ends\n", "c": "\n", "d": " leading", "e": "trailing ", "f": "tab\t", "g": "cr\r\n", "h": "# no comment", "i": "a #b", "j": "---", "k": "...", "l": "\n\n\nx\n\n"}`,
		"rare characters":        `{"a": "\u0000\u0001\u001f", "b": "\u007f\u0080\u009f", "c": "\u0085", "d": "\u2028\u2029", "e": "\ufeff", "f": "\ufffe\uffff", "g": "\ud83d\ude00", "h": "<&>", "i": "\u00a0", "\u007f": 1}`,
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			object := asServed(t, fmt.Sprintf(slurm, spec))
			got := readBack(t, mustEncodeOpaque(t, object))
			expect(t, "spec", asSent(t, object.Object["spec"]), asSent(t, got["spec"]))
		})
	}
}

func TestOpaqueSnapshotIsYAMLForPeopleToRead(t *testing.T) {
	data := mustEncodeOpaque(t, asServed(t, fmt.Sprintf(slurm, `{"partition": "gpu", "limits": {"bytes": 9007199254740993}}`)))
	if want := "\nspec:\n  limits:\n    bytes: 9007199254740993\n  partition: gpu\n"; !strings.Contains(data, want) {
		t.Errorf("the snapshot does not contain %q:\n%s", want, data)
	}
}

// asSent is a value after its way through an API server: 5.0 and -0.0 are 5 and 0.
func asSent(t *testing.T, value any) (sent any) {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	return sent
}

// anything is a random value that an object from the API server can hold.
func anything(r *rand.Rand, depth int) any {
	kinds := 8
	if depth <= 0 {
		kinds = 6 // no containers
	}
	switch r.Intn(kinds) {
	case 0:
		return nil
	case 1:
		return r.Intn(2) == 0
	case 2:
		return int64(r.Uint64()) >> r.Intn(64)
	case 3:
		return math.Float64frombits(uint64(r.Int63n(0x7fe<<52))) * float64(1-2*r.Intn(2)) // finite
	case 4, 5:
		return text(r)
	case 6:
		list := make([]any, r.Intn(4))
		for i := range list {
			list[i] = anything(r, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range r.Intn(5) {
		object[text(r)] = anything(r, depth-1)
	}
	return object
}

// text is made of what trips parsers: signs, digits, spaces, controls, and any character.
func text(r *rand.Rand) string {
	const tricky = "0123456789.eE+-_:~#&*!|>'\"%@`{}[],? \t\n\r\\=<yn"
	var out strings.Builder
	for range r.Intn(9) {
		if r.Intn(4) > 0 {
			out.WriteByte(tricky[r.Intn(len(tricky))])
			continue
		}
		out.WriteRune(rune(r.Intn(0x10ffff)))
	}
	return strings.ToValidUTF8(out.String(), "?")
}

func TestOpaqueSnapshotOfAnyObjectIsReadBackAsThatObject(t *testing.T) {
	check := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		object := asServed(t, fmt.Sprintf(slurm, `{}`))
		for range 6 {
			object.Object["x"+text(r)] = anything(r, 4)
		}
		want := object.DeepCopy().Object
		delete(want, "status")
		want["metadata"] = map[string]any{
			"name": "big", "namespace": "default", "labels": map[string]any{"team": "vision"}, "annotations": map[string]any{"note": "kept"},
		}
		got := readBack(t, mustEncodeOpaque(t, object))
		if diff := cmp.Diff(asSent(t, want), asSent(t, got)); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
			return false
		}
		return true
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 400, Rand: rand.New(rand.NewSource(1))}); err != nil {
		t.Error(err)
	}
}

// FuzzEncodeOpaque does the same with whatever JSON the fuzzer comes up with.
func FuzzEncodeOpaque(f *testing.F) {
	f.Add(`{"a": [1, 2.5, "x", null, {}]}`)
	f.Add(`{"<<": {"a": 9223372036854775807}, "~": "\u007f\u0085"}`)
	f.Fuzz(func(t *testing.T, spec string) {
		var value any
		if err := utiljson.Unmarshal([]byte(spec), &value); err != nil {
			return
		}
		object := asServed(t, fmt.Sprintf(slurm, `{}`))
		object.Object["spec"] = value
		got := readBack(t, mustEncodeOpaque(t, object))
		expect(t, "spec", asSent(t, value), asSent(t, got["spec"]))
	})
}

func TestOpaqueRuntimeThatIsTooLarge(t *testing.T) {
	large := asServed(t, fmt.Sprintf(slurm, `{}`))
	large.SetAnnotations(map[string]string{"copy": strings.Repeat("x", 200<<10), "note": "kept"})
	large.Object["spec"] = map[string]any{"script": strings.Repeat("y", MaxBytes-100<<10)}
	metadata := readBack(t, mustEncodeOpaque(t, large))["metadata"].(map[string]any)
	expect(t, "annotations", any(map[string]any{"note": "kept"}), metadata["annotations"])

	large.Object["spec"] = map[string]any{"script": strings.Repeat("y", MaxBytes)}
	_, err := EncodeOpaque(builders.TrainJob("a"), large)
	if tooLarge := (*TooLargeError)(nil); !errors.As(err, &tooLarge) || tooLarge.Kind != "SlurmRuntime" || tooLarge.Name != "big" {
		t.Errorf("error is %v, want a TooLargeError that names the runtime", err)
	}
}
