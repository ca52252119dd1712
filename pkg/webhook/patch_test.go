package webhook

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// marshalledBetween is the JSON patch from one object to another, nil if they are equal.
func marshalledBetween(before, after any) ([]byte, error) {
	operations, err := operationsBetween(before, after)
	if err != nil || len(operations) == 0 {
		return nil, err
	}
	return json.Marshal(operations)
}

func TestOperationsBetween(t *testing.T) {
	cases := map[string]struct{ before, after, want string }{
		"equal":                      {`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2}]}`, ``},
		"added":                      {`{"a":1}`, `{"a":1,"b":{"c":2}}`, `[{"op":"add","path":"/b","value":{"c":2}}]`},
		"added null":                 {`{}`, `{"a":null}`, `[{"op":"add","path":"/a","value":null}]`},
		"removed":                    {`{"a":1,"b":2}`, `{"b":2}`, `[{"op":"remove","path":"/a"}]`},
		"changed, deep":              {`{"a":{"b":[{"c":1},{"c":2}]}}`, `{"a":{"b":[{"c":1},{"c":3}]}}`, `[{"op":"replace","path":"/a/b/1/c","value":3}]`},
		"changed to null":            {`{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		"a list of another length":   {`{"a":[1,2]}`, `{"a":[1]}`, `[{"op":"replace","path":"/a","value":[1]}]`},
		"a list in place of a map":   {`{"a":{}}`, `{"a":[]}`, `[{"op":"replace","path":"/a","value":[]}]`},
		"keys that need escaping":    {`{"x/y":{"~":1}}`, `{"x/y":{"~":2}}`, `[{"op":"replace","path":"/x~1y/~0","value":2}]`},
		"numbers larger than floats": {`{"a":1}`, `{"a":9223372036854775807}`, `[{"op":"replace","path":"/a","value":9223372036854775807}]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			patch, err := marshalledBetween(json.RawMessage(tc.before), json.RawMessage(tc.after))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if patch == nil {
				return
			}
			decoded, err := jsonpatch.DecodePatch(patch)
			if err != nil {
				t.Fatal(err)
			}
			if applied, err := decoded.Apply([]byte(tc.before)); err != nil || !jsonpatch.Equal(applied, []byte(tc.after)) {
				t.Errorf("applied: %s, %v, want %s", applied, err, tc.after)
			}
		})
	}
}

func FuzzOperationsBetween(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`{"a":[2,{"c":2}],"~/":null}`))
	f.Add([]byte(`{"":{"":[]}}`), []byte(`{"":{"":[[]]}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		var old, new map[string]any
		if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &new) != nil || old == nil || new == nil {
			return
		}
		// As the two would be written: without keys that are given twice.
		before, _ = json.Marshal(old)
		after, _ = json.Marshal(new)
		patch, err := marshalledBetween(old, new)
		if err != nil {
			t.Fatal(err)
		}
		if patch == nil {
			if !jsonpatch.Equal(before, after) {
				t.Fatalf("no patch from %s to %s", before, after)
			}
			return
		}
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := decoded.Apply(before)
		if err != nil {
			t.Fatalf("%s on %s: %v", patch, before, err)
		}
		var got any
		if err := json.Unmarshal(applied, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(new), got); diff != "" {
			t.Fatalf("%s on %s (-want +got):\n%s", patch, before, diff)
		}
	})
}
