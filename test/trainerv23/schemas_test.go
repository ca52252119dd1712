package trainerv23

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// facts are what a schema demands of one field, by name, each as JSON.
type facts map[string]string

// schemas are the facts of all fields of all kinds, by path, such as
// TrainJob.spec.trainer.args[].
type schemas map[string]facts

// trainerSchemas reads the facts about Kubeflow Trainer's CRDs. The file says how it is written.
func trainerSchemas(t *testing.T) schemas {
	t.Helper()
	data, err := os.ReadFile("testdata/schemas.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := schemas{}
	var parents []string // of the line, by depth
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if depth > len(parents) || len(words) < 2 {
			t.Fatalf("testdata/schemas.txt: cannot read %q", line)
		}
		path := words[0]
		if parents = parents[:depth]; depth > 0 {
			path = below(parents[depth-1], words[0])
		}
		parents = append(parents, path)
		found[path] = facts{"type": words[1]}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			if name == "like" {
				found.copy(value, path)
				continue
			}
			found[path][name] = value
		}
	}
	return found
}

// copy makes the fields below one path those below another too.
func (s schemas) copy(from, to string) {
	for _, path := range slices.Collect(maps.Keys(s)) {
		rest, found := strings.CutPrefix(path, from)
		if found && rest != "" && strings.ContainsRune(".[{", rune(rest[0])) {
			s[to+rest] = s[path]
		}
	}
}

func below(parent, name string) string {
	if name == "[]" || name == "{}" {
		return parent + name
	}
	return parent + "." + name
}

// ownSchemas reads our CRD of a kind.
func ownSchemas(t *testing.T, resource, kind string) schemas {
	t.Helper()
	data, err := os.ReadFile("../../artifacts/crds/trainer.kubeflow.org_" + resource + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	found := schemas{}
	found.read(t, kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	return found
}

func (s schemas) read(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	s[path] = factsOf(t, schema)
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		s.read(t, below(path, name), property.(map[string]any))
	}
	for key, name := range map[string]string{"items": "[]", "additionalProperties": "{}"} {
		if child, ok := schema[key].(map[string]any); ok {
			s.read(t, below(path, name), child)
		}
	}
}

// keywords of a schema, and how the table of facts calls them.
var keywords = map[string]string{
	"default": "default", "enum": "enum", "pattern": "pattern", "required": "required", "nullable": "nullable",
	"minimum": "min", "maximum": "max", "minLength": "minLength", "maxLength": "maxLength", "minItems": "minItems", "maxItems": "maxItems",
	"minProperties": "minProperties", "maxProperties": "maxProperties",
	"x-kubernetes-list-type": "list", "x-kubernetes-list-map-keys": "keys", "x-kubernetes-map-type": "map",
}

func factsOf(t *testing.T, schema map[string]any) facts {
	t.Helper()
	found := facts{"type": typeOf(schema)}
	for keyword, name := range keywords {
		// What makes a schema one of a quantity is told by its type. Below zero is no part of that.
		if value, ok := schema[keyword]; ok && (found["type"] != "quantity" || keyword == "minimum") {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = strings.ReplaceAll(string(text), " ", `\u0020`)
		}
	}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	others := 0
	for _, rule := range rules {
		if rule.(map[string]any)["rule"] == "self == oldSelf" {
			found["immutable"] = "true"
		} else {
			others++
		}
	}
	if others > 0 {
		found["rules"] = fmt.Sprint(others)
	}
	return found
}

// typeOf is the type with its format. Quantities have no type of their own: Trainer's are
// integers or strings with a pattern, ours have a pattern and may be any number too.
func typeOf(schema map[string]any) string {
	kind, _ := schema["type"].(string)
	_, hasPattern := schema["pattern"]
	untyped := schema["x-kubernetes-int-or-string"] == true || schema["x-kubernetes-preserve-unknown-fields"] == true
	switch {
	case kind == "" && untyped && hasPattern:
		return "quantity"
	case schema["x-kubernetes-int-or-string"] == true:
		return "int-or-string"
	}
	if format, ok := schema["format"].(string); ok {
		kind += ":" + format
	}
	return kind
}

// difference is one fact that is not the same in both.
type difference struct {
	path, fact   string
	theirs, ours string
}

// compare lists the differences, and the fields of theirs that ours lacks. Of what only
// ours has, the topmost field is named.
func compare(theirs, ours schemas) (differences []difference, missing []string) {
	for path, want := range theirs {
		got, found := ours[path]
		if !found {
			missing = append(missing, path)
			continue
		}
		for _, fact := range slices.Compact(slices.Sorted(maps.Keys(union(want, got)))) {
			if want[fact] != got[fact] {
				differences = append(differences, difference{path, fact, want[fact], got[fact]})
			}
		}
	}
	for path, got := range ours {
		if _, found := theirs[path]; found {
			continue
		}
		if _, found := theirs[parentOf(path)]; found {
			differences = append(differences, difference{path, "new", "", got["type"]})
		}
	}
	slices.SortFunc(differences, func(a, b difference) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.fact, b.fact))
	})
	slices.Sort(missing)
	return differences, missing
}

func union(a, b facts) facts {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func parentOf(path string) string {
	if parent, ok := strings.CutSuffix(path, "[]"); ok {
		return parent
	}
	if parent, ok := strings.CutSuffix(path, "{}"); ok {
		return parent
	}
	return path[:max(strings.LastIndex(path, "."), 0)]
}
