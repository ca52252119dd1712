package validation

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// documents of all files of a folder of artifacts.
func documents(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", folder, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range bytes.Split(data, []byte("\n---\n")) {
			all[filepath.Base(file)+string(rune('a'+i))] = document
		}
	}
	return all
}

func kindIn(t *testing.T, document []byte) string {
	t.Helper()
	var meta struct{ Kind string }
	if err := yaml.Unmarshal(document, &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Kind
}

func TestWhatIsShippedPasses(t *testing.T) {
	runtimes := map[string]*runtimesnapshot.Runtime{}
	for name, document := range documents(t, "runtimes") {
		if kindIn(t, document) != trainer.ClusterTrainingRuntimeKind {
			continue
		}
		var runtime trainer.ClusterTrainingRuntime
		if err := yaml.UnmarshalStrict(document, &runtime); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mustPass(t, name, Runtime(&runtime.ObjectMeta, &runtime.Spec))
		runtimes[runtime.Name] = runtimesnapshot.FromClusterTrainingRuntime(&runtime)
	}
	jobs := 0
	for name, document := range documents(t, "examples") {
		if kindIn(t, document) != trainer.TrainJobKind {
			continue
		}
		job := &trainer.TrainJob{}
		if err := yaml.UnmarshalStrict(document, job); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		review := CreateTrainJob(job, runtimes[job.Spec.RuntimeRef.Name])
		if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil && *ttl < shortTTL {
			review.Warnings = review.Warnings[1:] // an example of a short life
		}
		mustPass(t, name, review)
		jobs++
	}
	if len(runtimes) < 5 || jobs < 10 {
		t.Errorf("only %d runtimes and %d jobs were looked at", len(runtimes), jobs)
	}
}
