package runtimesnapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// stored is a runtime as an API server would return it.
func stored(name, uid, resourceVersion string) *trainer.ClusterTrainingRuntime {
	runtime := builders.ClusterTrainingRuntime(name, builders.TorchSpec())
	runtime.UID, runtime.ResourceVersion = types.UID(uid), resourceVersion
	return runtime
}

func TestEncoderChangesNoSnapshot(t *testing.T) {
	e := NewEncoder()
	job := builders.TrainJob("a")
	renamed := stored("renamed", "u1", "2")
	for name, object := range map[string]*trainer.ClusterTrainingRuntime{
		"a runtime":                              stored("torch", "u1", "1"),
		"the same runtime once more":             stored("torch", "u1", "1"),
		"the same runtime, edited":               renamed,
		"another runtime of the same version":    stored("jax", "u2", "1"),
		"a runtime that was made anew":           stored("torch", "u3", "3"),
		"a runtime that no API server has seen":  stored("local", "", ""),
		"a runtime without a resourceVersion":    stored("fake", "u4", ""),
		"another runtime with no version either": stored("fake2", "u4", ""),
	} {
		t.Run(name, func(t *testing.T) {
			want := mustEncode(t, job, FromClusterTrainingRuntime(object))
			for range 2 {
				got := mustEncode(t, job, e.Prepare(object, FromClusterTrainingRuntime(object)))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the snapshot differs (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestEncoderLeavesWhatIsTooLargeToEncode(t *testing.T) {
	e := NewEncoder()
	object := stored("torch", "u1", "1")
	object.Annotations = map[string]string{"much": strings.Repeat("x", MaxBytes)}
	if text := e.Prepare(object, FromClusterTrainingRuntime(object)).Text; text != "" {
		t.Errorf("a text of %d bytes was made", len(text))
	}
}

func TestEncoderRemembersNotTooMuch(t *testing.T) {
	e := NewEncoder()
	filler := strings.Repeat("x", 100_000)
	for i := range 60 {
		object := withArgs([]string{filler}, nil)
		object.UID, object.ResourceVersion = types.UID(fmt.Sprint(i)), "1"
		if e.Prepare(object, FromClusterTrainingRuntime(object)); e.known.Weight() > encodedLimit || e.known.Weight() < 100_000 {
			t.Fatalf("%d bytes are remembered, want some and at most %d", e.known.Weight(), encodedLimit)
		}
	}
}
