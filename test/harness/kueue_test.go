package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestKueueWritesWhatItsTypesKnowAsGoDoes(t *testing.T) {
	read := func(text string) map[string]any {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	got, err := asKueueWrites(read(`{runtimeRef: {name: torch}, suspend: false, ttlSecondsAfterFinished: 2, activeDeadlineSeconds: 300,
		trainer: {command: [], env: [{name: A, value: ""}], resourcesPerNode: {limits: {cpu: "0.5", memory: 1024Mi}}}, runtimePatches: []}`))
	if err != nil {
		t.Fatal(err)
	}
	want := read(`{runtimeRef: {name: torch}, suspend: false, activeDeadlineSeconds: 300,
		trainer: {env: [{name: A}], resourcesPerNode: {limits: {cpu: 500m, memory: 1Gi}}}}`)
	want["activeDeadlineSeconds"] = int64(300) // not a fraction, for the dynamic client
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
