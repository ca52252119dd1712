package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

const (
	shippedRuntimes = "../../artifacts/runtimes"
	shippedExamples = "../../artifacts/examples"
)

// yamlFiles are the names of the YAML files of a folder, without their ending. What
// kustomize reads is none of them.
func yamlFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".yaml"); name != "kustomization" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("there is nothing in %s", folder)
	}
	return names
}

// shipped is a runtime of the artifacts as a job finds it: through its snapshot.
func shipped(t testing.TB, job *v1alpha1.TrainJob, name string) Runtime {
	t.Helper()
	var runtime v1alpha1.ClusterTrainingRuntime
	decode(t, filepath.Join(shippedRuntimes, name+".yaml"), &runtime)
	if runtime.Name != name {
		t.Errorf("the runtime in %s.yaml is called %s", name, runtime.Name)
	}
	cm, err := runtimesnapshot.Encode(job, runtimesnapshot.FromClusterTrainingRuntime(&runtime))
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := runtimesnapshot.Decode(cm)
	if err != nil {
		t.Fatal(err)
	}
	return FromSnapshot(frozen)
}

func TestGoldenFilesOfShippedRuntimes(t *testing.T) {
	jobs := map[string]string{"bare": "bare", "empty-trainer": "empty-trainer", "full": "without-initializer", "patches": "any-patches"}
	for _, name := range yamlFiles(t, shippedRuntimes) {
		for variant, file := range jobs {
			if variant == "full" && strings.HasPrefix(name, "torchtune-") {
				file = "torchtune-full"
			}
			t.Run(name+"-"+variant, func(t *testing.T) {
				var job v1alpha1.TrainJob
				decode(t, filepath.Join("testdata", "jobs", file+".yaml"), &job)
				job.Spec.RuntimeRef.Name = name
				checkGolden(t, filepath.Join("shipped", name+"-"+variant), mustRender(t, &job, shipped(t, &job, name)))
			})
		}
	}
	if got, want := len(yamlFiles(t, "testdata/golden/shipped")), len(jobs)*len(yamlFiles(t, shippedRuntimes)); got != want {
		t.Errorf("testdata/golden/shipped has %d files, %d of them are used", got, want)
	}
}

func TestEveryExampleCanBeBuilt(t *testing.T) {
	used := map[string]bool{}
	for _, name := range yamlFiles(t, shippedExamples) {
		t.Run(name, func(t *testing.T) {
			var job v1alpha1.TrainJob
			decode(t, filepath.Join(shippedExamples, name+".yaml"), &job)
			used[job.Spec.RuntimeRef.Name] = true
			mustRender(t, &job, shipped(t, &job, job.Spec.RuntimeRef.Name))
		})
	}
	for _, name := range yamlFiles(t, shippedRuntimes) {
		if !used[name] {
			t.Errorf("no example uses the runtime %s", name)
		}
	}
}

func TestKustomizeAppliesEveryRuntime(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(shippedRuntimes, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	want := yamlFiles(t, shippedRuntimes)
	for i := range want {
		want[i] += ".yaml"
	}
	if diff := cmp.Diff(want, kustomization.Resources); diff != "" {
		t.Errorf("resources (-in the folder +in kustomization.yaml):\n%s", diff)
	}
}

// ownImage is built from this repository, and pulled from wherever an admin has put it.
const ownImage = "preflight:"

// A name without registry or tag is another image on another cluster, or on another day.
func TestImagesOfShippedRuntimesHaveFullNames(t *testing.T) {
	for _, name := range yamlFiles(t, shippedRuntimes) {
		for _, rjob := range shipped(t, trainJob(), name).Spec.Template.Spec.ReplicatedJobs {
			pod := podOf(&rjob)
			for _, container := range append(append([]corev1.Container{}, pod.InitContainers...), pod.Containers...) {
				if strings.HasPrefix(container.Image, ownImage) {
					continue
				}
				registry, rest, found := strings.Cut(container.Image, "/")
				_, tag, tagged := strings.Cut(rest, ":")
				if !found || !strings.Contains(registry, ".") || !tagged || tag == "" || tag == "latest" {
					t.Errorf("%s: the image of %s is %q", name, container.Name, container.Image)
				}
			}
		}
	}
}

// The Kubeflow SDK passes over a runtime without the label, and cannot list jobs of it.
func TestShippedRuntimesSayTheirFramework(t *testing.T) {
	for _, name := range yamlFiles(t, shippedRuntimes) {
		var runtime v1alpha1.ClusterTrainingRuntime
		decode(t, filepath.Join(shippedRuntimes, name+".yaml"), &runtime)
		if runtime.Labels["trainer.kubeflow.org/framework"] == "" {
			t.Errorf("%s has no label trainer.kubeflow.org/framework", name)
		}
	}
}
