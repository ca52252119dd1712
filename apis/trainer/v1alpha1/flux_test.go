package v1alpha1

import (
	"encoding/json"
	"testing"

	"k8s.io/utils/ptr"
)

func TestStoredRuntimesOfFluxCanBeRead(t *testing.T) {
	cases := map[string]struct {
		stored string
		want   *int32
		fails  bool
	}{
		"a number":          {stored: `{"numProcPerNode": 4}`, want: ptr.To[int32](4)},
		"no number":         {stored: `{}`},
		"null":              {stored: `{"numProcPerNode": null}`},
		"a word of before":  {stored: `{"numProcPerNode": "auto"}`},
		"no whole number":   {stored: `{"numProcPerNode": 1.5}`, fails: true},
		"too large":         {stored: `{"numProcPerNode": 2147483648}`, fails: true},
		"a list":            {stored: `{"numProcPerNode": []}`, fails: true},
		"no object at all":  {stored: `"auto"`, fails: true},
		"nothing about it":  {stored: `null`},
		"another field too": {stored: `{"numProcPerNode": 2, "later": {}}`, want: ptr.To[int32](2)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			policy := MLPolicySource{Flux: &FluxMLPolicySource{NumProcPerNode: ptr.To[int32](7)}}
			err := json.Unmarshal([]byte(`{"flux": `+c.stored+`}`), &policy)
			if c.fails {
				if err == nil {
					t.Errorf("read as %v", ptr.Deref(policy.Flux.NumProcPerNode, -1))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if policy.Flux != nil && !ptr.Equal(policy.Flux.NumProcPerNode, c.want) {
				t.Errorf("got %v, want %v", ptr.Deref(policy.Flux.NumProcPerNode, -1), ptr.Deref(c.want, -1))
			}
		})
	}
}
