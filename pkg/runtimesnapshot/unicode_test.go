package runtimesnapshot

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// withArgs is a runtime whose training container has the arguments.
func withArgs(args []string, annotations map[string]string) *trainer.ClusterTrainingRuntime {
	runtime := builders.ClusterTrainingRuntime("r", trainer.TrainingRuntimeSpec{Template: trainer.JobSetTemplateSpec{Spec: jobset.JobSetSpec{
		ReplicatedJobs: []jobset.ReplicatedJob{{Name: "node", Replicas: 1, Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "node", Args: args}}}},
		}}}},
	}}})
	runtime.Annotations = annotations
	return runtime
}

func argsOf(runtime *Runtime) []string {
	return runtime.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Args
}

// TestEveryCharacterIsReadBack goes through all of Unicode: each character alone, between
// others, at the ends of lines, and as part of a key.
func TestEveryCharacterIsReadBack(t *testing.T) {
	const step = 0x800
	for first := rune(0); first <= utf8.MaxRune; first += step {
		var args []string
		annotations := map[string]string{"k": "v"}
		var block strings.Builder
		for r := first; r < first+step && r <= utf8.MaxRune; r++ {
			if !utf8.ValidRune(r) {
				continue // half of a character: no string of the API has one
			}
			block.WriteRune(r)
			if r < 0x3100 || r >= 0xfe00 && r < 0x10000 || r%0x10000 >= 0xfff0 { // where parsers have their rules
				args = append(args, string(r), fmt.Sprintf("a%cb", r), fmt.Sprintf(" %c\n%c\n", r, r))
				annotations[fmt.Sprintf("k%c", r)] = string(r)
			}
		}
		args = append(args, block.String())
		want := FromClusterTrainingRuntime(withArgs(args, annotations))
		got := mustDecode(t, mustEncode(t, builders.TrainJob("a"), want))
		expect(t, fmt.Sprintf("arguments from %U on", first), args, argsOf(got))
		expect(t, fmt.Sprintf("annotations from %U on", first), want.Metadata.Annotations, got.Metadata.Annotations)
		if t.Failed() {
			return
		}
	}
}

func TestCharactersThatYAMLDoesNotPrintAreEscapedAndNothingElse(t *testing.T) {
	plain := withArgs([]string{"caf\u00e9 \u4e16\u754c \U0001f600"}, nil)
	if data := mustEncode(t, builders.TrainJob("a"), FromClusterTrainingRuntime(plain)).Data[DataKey]; !strings.Contains(data, "caf\u00e9 \u4e16\u754c") {
		t.Errorf("what people read has been escaped:\n%s", data)
	}
}

func TestWhatASnapshotCannotHoldIsNamed(t *testing.T) {
	want := map[string]any{"spec": map[string]any{"list": []any{"a", map[string]any{"x": "\u0085", "y": "b"}}}}
	got := map[string]any{"spec": map[string]any{"list": []any{"a", map[string]any{"x": " ", "y": "b"}}}}
	expect(t, "field", `field ["spec"]["list"][1]["x"]`, difference("", want, got))
	expect(t, "no field", "", difference("", want, want))
	expect(t, "a list that is shorter", `field ["l"]`, difference("", map[string]any{"l": []any{"a"}}, map[string]any{"l": []any{}}))
}
