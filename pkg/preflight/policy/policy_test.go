package policy

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestPoliciesAreYAMLForAnyContainer(t *testing.T) {
	for _, form := range Forms {
		text, err := YAML(form, "my-check")
		if err != nil {
			t.Fatal(err)
		}
		var parsed map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &parsed); err != nil {
			t.Errorf("%s: %v\n%s", form, err, text)
		}
		for _, word := range []string{"CONTAINER", "RETRY", "RESCHEDULE", "STOP"} {
			if strings.Contains(text, word) {
				t.Errorf("%s still says %s", form, word)
			}
		}
		if form != Container && !strings.Contains(text, "my-check") {
			t.Errorf("%s does not name the container", form)
		}
	}
}

func TestWhatIsNoContainerOrFormIsRefused(t *testing.T) {
	for _, name := range []string{"", "a b", "Preflight", "a.*", "x\ny"} {
		if text, err := YAML(Job, name); err == nil {
			t.Errorf("%q: %s", name, text)
		}
	}
	if text, err := YAML("pod", "preflight"); err == nil {
		t.Error(text)
	}
}
