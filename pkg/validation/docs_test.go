package validation

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the tables of docs/validation.md anew")

const page = "../../docs/validation.md"

// TestThePageSaysWhatIsSaid compares the tables of the page with what the rules say of
// the examples, and with the rules in the CRDs.
func TestThePageSaysWhatIsSaid(t *testing.T) {
	const begin, end = "<!-- Written by `go test ./pkg/validation -update`. -->\n", "<!-- The tables end here. -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has lost the comments around the tables")
	}
	var want strings.Builder
	for _, chapter := range chapters() {
		fmt.Fprintf(&want, "\n### %s\n\n| rule | CRD | controller without webhook | the webhook says, for example |\n|---|---|---|---|\n", chapter.title)
		for _, example := range chapter.examples {
			said := texts(example.beyond)[0]
			fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", example.rule, cmp.Or(example.crd, "–"), cmp.Or(example.controller, "–"), cell(said))
		}
	}
	want.WriteString(schemaTable(t))
	want.WriteString("\n")
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want.String()
	}
	if diff := gocmp.Diff(got, want.String()); diff != "" {
		t.Errorf("run the test with -update and read the difference before committing it (-page +code):\n%s", diff)
	}
}

var sizes = regexp.MustCompile(`(Invalid value: 168)\d{4}`)

// cell makes a message fit into a table.
func cell(text string) string {
	text = strings.ReplaceAll(text, strings.Repeat("a", 47), "aaa…")
	text = strings.ReplaceAll(text, strings.Repeat("n", 52), "nnn…")
	text = sizes.ReplaceAllString(text, "${1}…") // the exact size changes with whatever is rendered
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// crdSchema is the schema of a kind.
type crdSchema struct {
	kind   string
	schema any
}

func schemaOf(t *testing.T, resource string) crdSchema {
	t.Helper()
	data, err := os.ReadFile("../../artifacts/crds/trainer.kubeflow.org_" + resource + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Names    struct{ Kind string }
			Versions []struct {
				Schema struct{ OpenAPIV3Schema any }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crdSchema{crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema}
}

// schemaTable lists the rules of the CRDs that have messages of their own.
func schemaTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n### The schemas by themselves\n\n| kind | field | message |\n|---|---|---|\n")
	for _, resource := range []string{"trainjobs", "trainingruntimes"} {
		crd := schemaOf(t, resource)
		kind := strings.Replace(crd.kind, "TrainingRuntime", "both runtimes", 1)
		told := map[string]bool{}
		schemaRules(crd.schema, "", func(path, at, message string) {
			if strings.HasPrefix(path, ".spec.template.spec") {
				return // what JobSet brings along is JobSet's
			}
			row := fmt.Sprintf("| %s | `%s` | %s |\n", kind, cmp.Or(strings.TrimPrefix(path+at, "."), "metadata.name"), message)
			if !told[row] {
				told[row] = true
				b.WriteString(row)
			}
		})
	}
	return b.String()
}

// remedies are the words that a remedy begins with.
var remedies = []string{"create", "give", "leave", "remove", "set", "suspend", "use"}

// moreRemedies are those that the webhook has besides.
var moreRemedies = []string{"add", "correct", "keep", "lower", "name", "put", "rename"}

// TestEveryRefusalSaysWhatToDo looks for a remedy after a colon or a semicolon of what the
// webhook says of each example. Where only some values are supported, they are listed.
func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	words := slices.Concat(remedies, moreRemedies)
	for _, chapter := range chapters() {
		if chapter.warnings {
			continue
		}
		for _, example := range chapter.examples {
			for _, err := range example.beyond.Errors {
				text := err.Error()
				remedy := err.Type == field.ErrorTypeNotSupported
				for _, mark := range []string{": ", "; "} {
					rest := strings.Fields(text[strings.LastIndex(text, mark)+1:])
					remedy = remedy || slices.Contains(words, rest[0])
				}
				if !remedy {
					t.Errorf("%s: no remedy in %q: end it with a colon and one of the words %v", example.rule, text, words)
				}
			}
		}
	}
}

// TestEveryRuleOfTheCRDsSaysWhatToDo looks at the words after the last colon of each
// message. A message made by an expression has one besides that is fixed.
func TestEveryRuleOfTheCRDsSaysWhatToDo(t *testing.T) {
	rules := 0
	for _, resource := range []string{"trainjobs", "trainingruntimes", "clustertrainingruntimes"} {
		schemaRules(schemaOf(t, resource).schema, "", func(path, _, message string) {
			if strings.HasPrefix(path, ".spec.template.spec") {
				return // what JobSet brings along is JobSet's
			}
			rules++
			colon := strings.LastIndex(message, ": ")
			if colon < 0 || !slices.Contains(remedies, strings.Fields(message[colon:])[1]) {
				t.Errorf("%s%s: no remedy in %q: end it with a colon and one of the words %v", resource, path, message, remedies)
			}
		})
	}
	if rules < 40 {
		t.Errorf("%d rules were found: the schemas are read wrongly", rules)
	}
}

// schemaRules visits the CEL rules of a schema, parents first: the path of the schema,
// that of the field within it which a rule is about, and the message.
func schemaRules(node any, path string, visit func(path, at, message string)) {
	schema, _ := node.(map[string]any)
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		at, _ := rule["fieldPath"].(string)
		visit(path, at, fmt.Sprint(rule["message"]))
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		schemaRules(properties[name], path+"."+name, visit)
	}
	if items := schema["items"]; items != nil {
		schemaRules(items, path+"[]", visit)
	}
}
