package policy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// at goes down a path of keys; in a list it takes the entry of that name.
func at(t *testing.T, value any, path ...string) any {
	t.Helper()
	for _, key := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			i := slices.IndexFunc(v, func(entry any) bool { return entry.(map[string]any)["name"] == key })
			if i < 0 {
				t.Fatalf("there is no %s", key)
			}
			value = v[i]
		default:
			t.Fatalf("there is nothing at %v", path)
		}
	}
	return value
}

func runtime(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile("../../../artifacts/runtimes/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := yaml.UnmarshalStrict(data, &parsed); err != nil {
		t.Fatal(err)
	}
	return at(t, parsed, "spec", "template", "spec")
}

func TestTheShippedRuntimesHoldWhatIsPrinted(t *testing.T) {
	for name, restarts := range map[string]bool{"torch-distributed-preflight": true, "torch-distributed-preflight-legacy": false} {
		t.Run(name, func(t *testing.T) {
			spec := runtime(t, name)
			job := at(t, spec, "replicatedJobs", "node", "template", "spec")
			parts := map[Form]any{JobSet: spec, Job: job}
			container := at(t, job, "template", "spec", "initContainers", "preflight")
			if restarts {
				parts[Container] = container
			} else if container.(map[string]any)["restartPolicyRules"] != nil {
				t.Error("the variant for older Kubernetes restarts a container")
			}
			for form, part := range parts {
				text, err := YAML(form, "preflight")
				if err != nil {
					t.Fatal(err)
				}
				var want map[string]any
				if err := yaml.UnmarshalStrict([]byte(text), &want); err != nil {
					t.Fatal(err)
				}
				has(t, string(form), want, part)
			}
		})
	}
}

// has fails where got lacks something of want; what got has besides does not matter in maps.
func has(t *testing.T, path string, want, got any) {
	t.Helper()
	wanted, ok := want.(map[string]any)
	found, also := got.(map[string]any)
	if !ok || !also {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-printed +in the runtime):\n%s", path, diff)
		}
		return
	}
	for key, value := range wanted {
		has(t, path+"."+key, value, found[key])
	}
}

// The Job controller's message of a rule that has matched, as of Kubernetes 1.37.
func TestWhatTheRulesMakeOfMessages(t *testing.T) {
	const of = " for pod ml/bert-node-0-3-x7zq8 failed with exit code "
	for message, want := range map[string]string{
		"Container preflight" + of + "30 matching FailJob rule at index 1":                           "preflightFatal",
		"Container preflight" + of + "20 matching FailJob rule at index 1":                           "preflightRetry",
		"Container preflight" + of + "21 matching FailJob rule at index 1":                           "preflightRetry",
		"Container preflight" + of + "2 matching FailJob rule at index 1":                            "preflightCrashed",
		"Container preflight" + of + "137 matching FailJob rule at index 1":                          "preflightCrashed",
		"Container preflight" + of + "210 matching FailJob rule at index 1":                          "preflightCrashed",
		"Container node" + of + "30 matching FailJob rule at index 1":                                "",
		"Pod ml/bert-node-0-3-x7zq8 has condition DisruptionTarget matching FailJob rule at index 0": "disruption",
	} {
		if got := matching(t, message); got != want {
			t.Errorf("%s: the rule is %q, want %q", message, got, want)
		}
	}
}

// matching is the name of the first rule of the JobSet that a message matches.
func matching(t *testing.T, message string) string {
	t.Helper()
	text, err := YAML(JobSet, "preflight")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		FailurePolicy struct {
			Rules []struct {
				Name                        string
				OnJobFailureMessagePatterns []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	for _, rule := range policy.FailurePolicy.Rules {
		if slices.ContainsFunc(rule.OnJobFailureMessagePatterns, func(p string) bool { return regexp.MustCompile(p).MatchString(message) }) {
			return rule.Name
		}
	}
	return ""
}

func TestTheDocumentedNameOfTheContainerIsTheOneOfTheRuntimes(t *testing.T) {
	text, err := YAML(JobSet, "my-check")
	if err != nil || !strings.Contains(text, "^Container my-check for pod ") {
		t.Errorf("%v: %s", err, text)
	}
}
