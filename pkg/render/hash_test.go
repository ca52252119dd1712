package render

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestPatchesHash(t *testing.T) {
	selector := func(manager, value string) v1alpha1.RuntimePatch {
		patch := trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{NodeSelector: map[string]string{"pool": value, "a": "1", "b": "1"}})).Spec.RuntimePatches[0]
		patch.Manager = manager
		return patch
	}
	timed := func(patch v1alpha1.RuntimePatch) v1alpha1.RuntimePatch {
		patch.Time = &metav1.Time{}
		return patch
	}
	type patches = []v1alpha1.RuntimePatch
	empty := v1alpha1.RuntimePatch{Manager: "kueue.x-k8s.io/manager", TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{}}
	cases := map[string]struct {
		a, b patches
		same bool
	}{
		"none and an empty list":           {nil, patches{}, true},
		"none and an empty entry":          {nil, patches{empty, {Manager: "m"}}, true},
		"an empty entry among others":      {patches{selector("a", "x")}, patches{empty, selector("a", "x")}, true},
		"two times":                        {patches{selector("a", "x")}, patches{timed(selector("a", "x"))}, true},
		"none and one that says something": {nil, patches{selector("a", "x")}, false},
		"two values":                       {patches{selector("a", "x")}, patches{selector("a", "y")}, false},
		"two managers":                     {patches{selector("a", "x")}, patches{selector("b", "x")}, false},
		"two orders":                       {patches{selector("a", "x"), selector("b", "y")}, patches{selector("b", "y"), selector("a", "x")}, false},
		"an empty node selector and no selector": {
			trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{NodeSelector: map[string]string{}})).Spec.RuntimePatches,
			trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{})).Spec.RuntimePatches, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := toJSON(t, tc.b)
			a, b := PatchesHash(tc.a), PatchesHash(tc.b)
			if (a == b) != tc.same {
				t.Errorf("%s and %s", a, b)
			}
			if diff := cmp.Diff(before, toJSON(t, tc.b)); diff != "" {
				t.Errorf("the patches were written to (-before +after):\n%s", diff)
			}
			if len(a) != len(hashVersion)+64 {
				t.Errorf("%q is no hexadecimal SHA-256 with the version before it", a)
			}
			if old := marshalledHash(tc.a); BuiltFrom(a, tc.b) != tc.same || BuiltFrom(old, tc.b) != (old == marshalledHash(tc.b)) || BuiltFrom("", tc.b) {
				t.Error("BuiltFrom does not agree")
			}
		})
	}
}

// The hash lives on objects of running clusters: if it changes for the same patches,
// every suspended job is rewritten once after an upgrade.
func TestPatchesHashStaysTheSameOverVersions(t *testing.T) {
	job, _ := fromFiles(t, "torch", "patches")
	for _, tc := range []struct {
		patches      []v1alpha1.RuntimePatch
		now, earlier string
	}{
		{nil, "2-7014156c1ac2c4c9479f0fcf629c656e2564a041222b795312e93e0d42fee8e2", "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"},
		{job.Spec.RuntimePatches, "2-3f419bdf07ee9c664c871f922e4f27ba36881595413d7402e022822a37b48822", "bde6e1962f8f78e8892edb764fd996f8858abe494c665c89de1d6d4506e1b72e"},
	} {
		if diff := cmp.Diff(tc.now, PatchesHash(tc.patches)); diff != "" {
			t.Errorf("hash (-want +got):\n%s", diff)
		}
		if !BuiltFrom(tc.earlier, tc.patches) || !BuiltFrom(tc.now, tc.patches) {
			t.Errorf("a JobSet with the hash %s or %s would be rewritten", tc.earlier, tc.now)
		}
	}
}

// A newer Kubernetes may add fields to the structs of a patch, or put them in another
// order; one that is not set says nothing.
func TestTheHashIsOfWhatIsSetAndNotOfALibrarysStructs(t *testing.T) {
	type Inner struct {
		B string `json:"b,omitempty"`
	}
	type before struct {
		A     *int64            `json:"a,omitempty"`
		M     map[string]string `json:"m,omitempty"`
		Inner `json:",inline"`
	}
	type after struct {
		New   bool   `json:"new"`
		B     string `json:"b"`
		Other []int  `json:"other"`
		A     *int64 `json:"a"`
		M     map[string]string
	}
	hashed := func(value any) string {
		sum := sha256.New()
		hashValue(sum, reflect.ValueOf(value))
		return hex.EncodeToString(sum.Sum(nil))
	}
	zero := int64(0)
	if hashed(before{A: &zero, Inner: Inner{"x"}}) != hashed(after{A: &zero, B: "x"}) {
		t.Error("a field that is not set, or another order, changes the hash")
	}
	if hashed(before{A: &zero}) == hashed(before{}) || hashed(after{New: true}) == hashed(after{}) {
		t.Error("a value that is given does not change the hash")
	}
	if hashed([]string{"ab", "c"}) == hashed([]string{"a", "bc"}) {
		t.Error("the border between two values is not seen")
	}
}
