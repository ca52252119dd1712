package render

import (
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
			if len(a) != 64 {
				t.Errorf("%q is no hexadecimal SHA-256", a)
			}
		})
	}
}

// The hash lives on objects of running clusters: if it changes for the same patches,
// every suspended job is rewritten once after an upgrade.
func TestPatchesHashStaysTheSameOverVersions(t *testing.T) {
	job, _ := fromFiles(t, "torch", "patches")
	for want, patches := range map[string][]v1alpha1.RuntimePatch{
		"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945": nil,
		"bde6e1962f8f78e8892edb764fd996f8858abe494c665c89de1d6d4506e1b72e": job.Spec.RuntimePatches,
	} {
		if diff := cmp.Diff(want, PatchesHash(patches)); diff != "" {
			t.Errorf("hash (-want +got):\n%s", diff)
		}
	}
}
