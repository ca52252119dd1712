package render

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGoldenFiles(t *testing.T) {
	cases := map[string]struct{ runtime, job string }{
		"plain":                {"plain", "bare"},
		"plain-full":           {"plain", "without-initializer"},
		"torch":                {"torch", "bare"},
		"torch-empty-trainer":  {"torch", "empty-trainer"},
		"torch-full":           {"torch", "full"},
		"torch-runtimepatches": {"torch", "patches"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job, runtime := fromFiles(t, tc.runtime, tc.job)
			checkGolden(t, name, mustRender(t, job, runtime))
		})
	}
}

// checkGolden compares objects with those that were read and found right.
func checkGolden(t *testing.T, name string, objects *Objects) {
	t.Helper()
	got, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "golden", name+".yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run the test with -update and read the difference before committing it (-want +got):\n%s", diff)
	}
}

func TestATrainerWithoutFieldsIsTheSameAsNone(t *testing.T) {
	without, runtime := fromFiles(t, "torch", "bare")
	empty, _ := fromFiles(t, "torch", "empty-trainer")
	if diff := cmp.Diff(mustRender(t, without, runtime), mustRender(t, empty, runtime)); diff != "" {
		t.Errorf("without trainer and with an empty one (-without +empty):\n%s", diff)
	}
}

// printRendered makes the test binary print one rendering and nothing else.
const printRendered = "RENDER_TEST_PRINT"

func TestEveryProcessRendersTheSameBytes(t *testing.T) {
	job, runtime := fromFiles(t, "torch", "patches")
	want := toJSON(t, mustRender(t, job, runtime).JobSet)
	if os.Getenv(printRendered) != "" {
		fmt.Printf("%s\n", want)
		os.Exit(0)
	}
	if testing.Short() {
		t.Skip("starts 50 processes")
	}
	for range 50 {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), printRendered+"=1")
		got, err := child.Output()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(bytes.TrimSpace(got))); diff != "" {
			t.Fatalf("another process renders something else (-here +there):\n%s", diff)
		}
	}
}

func BenchmarkRenderTorch(b *testing.B) {
	for _, name := range []string{"bare", "full", "patches"} {
		job, runtime := fromFiles(b, "torch", name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Render(job, runtime); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
