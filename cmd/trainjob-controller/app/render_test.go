package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

const (
	header       = "apiVersion: trainer.kubeflow.org/v1alpha1\n"
	runtimeYAML  = header + "kind: ClusterTrainingRuntime\nmetadata: {name: jax}\nspec:\n  mlPolicy: {numNodes: 2, jax: {}}\n" + templateYAML
	templateYAML = `  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers: [{name: node, image: x}]
`
	jobYAML    = header + "kind: TrainJob\nmetadata: {name: bert, namespace: research}\nspec: {runtimeRef: {name: jax}}\n"
	othersYAML = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nunknown: field\n"
)

// namespacedYAML is a TrainingRuntime with a framework that adds nothing.
func namespacedYAML(name, metadata string) string {
	return fmt.Sprintf("%skind: TrainingRuntime\nmetadata: {name: %s%s}\nspec:\n  mlPolicy: {numNodes: 3}\n%s", header, name, metadata, templateYAML)
}

// runRender writes files into a folder, in which the command then runs. What is named
// "-" is the standard input.
func runRender(t *testing.T, files map[string]string, names ...string) (printed, warnings string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	cmd := NewCommand()
	cmd.SilenceErrors = true
	args := []string{"render"}
	for _, name := range names {
		args = append(args, "-f", name)
	}
	for name, content := range files {
		if name == "-" {
			cmd.SetIn(strings.NewReader(content))
		} else if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), errOut.String(), err
}

func TestRenderPrintsOneJobSetForEveryTrainJob(t *testing.T) {
	own := strings.ReplaceAll(jobYAML, "{name: jax}", "{name: own, kind: TrainingRuntime}")
	second := strings.ReplaceAll(jobYAML, "bert", "gpt")
	cases := map[string]struct {
		files map[string]string
		names []string
		want  []string // namespace/name, nodes
	}{
		"a job and its runtime":                         {map[string]string{"a": jobYAML, "b": runtimeYAML}, []string{"a", "b"}, []string{"research/bert 2"}},
		"in any order":                                  {map[string]string{"a": jobYAML, "b": runtimeYAML}, []string{"b", "a"}, []string{"research/bert 2"}},
		"in one file, with empty documents":             {map[string]string{"a": "# job\n---\n" + jobYAML + "---\n\n---\n" + runtimeYAML + "---\n"}, []string{"a"}, []string{"research/bert 2"}},
		"from the standard input":                       {map[string]string{"-": runtimeYAML, "a": jobYAML}, []string{"-", "a"}, []string{"research/bert 2"}},
		"several jobs, in the order of the files":       {map[string]string{"a": second + "---\n" + jobYAML, "b": runtimeYAML}, []string{"a", "b"}, []string{"research/gpt 2", "research/bert 2"}},
		"objects of others are passed over":             {map[string]string{"a": othersYAML + "---\n" + jobYAML, "b": runtimeYAML}, []string{"a", "b"}, []string{"research/bert 2"}},
		"a runtime of the job's namespace":              {map[string]string{"a": own, "b": namespacedYAML("own", ", namespace: research")}, []string{"a", "b"}, []string{"research/bert 3"}},
		"what has no namespace is in the default one":   {map[string]string{"a": strings.ReplaceAll(own, ", namespace: research", ""), "b": namespacedYAML("own", "")}, []string{"a", "b"}, []string{"default/bert 3"}},
		"the right one of two runtimes of the one name": {map[string]string{"a": jobYAML, "b": runtimeYAML + "---\n" + namespacedYAML("jax", ", namespace: research")}, []string{"a", "b"}, []string{"research/bert 2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, warnings, err := runRender(t, tc.files, tc.names...)
			if err != nil || warnings != "" {
				t.Fatalf("error %v, warnings:\n%s", err, warnings)
			}
			var got []string
			for _, text := range strings.Split(out, "---\n")[1:] {
				var js jobset.JobSet
				if err := yaml.UnmarshalStrict([]byte(text), &js); err != nil {
					t.Fatalf("%v in\n%s", err, text)
				}
				if js.Kind != "JobSet" || strings.Contains(text, "\nstatus:") {
					t.Errorf("printed:\n%s", text)
				}
				got = append(got, fmt.Sprintf("%s/%s %d", js.Namespace, js.Name, *js.Spec.ReplicatedJobs[0].Template.Spec.Parallelism))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("JobSets and their nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderSaysWhatIsWrongAndWhere(t *testing.T) {
	invalid := strings.ReplaceAll(runtimeYAML, "name: node, image", "name: main, image")
	cases := map[string]struct {
		files map[string]string
		names []string
		want  []string // lines
	}{
		"no file at all":           {nil, nil, []string{"name at least one file with -f, or - for the standard input"}},
		"a file that is not there": {nil, []string{"a"}, []string{"open a: no such file or directory"}},
		"no job": {map[string]string{"a": runtimeYAML, "b": othersYAML}, []string{"a", "b"},
			[]string{"there is no TrainJob in a, b"}},
		"unknown fields, of every document": {map[string]string{"a": strings.ReplaceAll(jobYAML, "runtimeRef", "runtimeref") + "---\n" + strings.ReplaceAll(runtimeYAML, "containers", "container")}, []string{"a"},
			[]string{`a: strict decoding error: unknown field "spec.runtimeref"`,
				`a, document 2: strict decoding error: unknown field "spec.template.spec.replicatedJobs[0].template.spec.template.spec.container"`}},
		"a field twice": {map[string]string{"a": jobYAML + "kind: TrainJob\n"}, []string{"a"},
			[]string{"a: strict decoding error: yaml: unmarshal errors:", `  line 5: key "kind" already set in map`}},
		"a value of another type": {map[string]string{"a": strings.ReplaceAll(jobYAML, "spec: {", "spec: {suspend: perhaps, ")}, []string{"a"},
			[]string{"a: json: cannot unmarshal string into Go struct field TrainJobSpec.spec.suspend of type bool"}},
		"no YAML":        {map[string]string{"a": "kind: x\n y: ["}, []string{"a"}, []string{"a: error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context"}},
		"no kind":        {map[string]string{"a": header}, []string{"a"}, []string{`a: apiVersion is "trainer.kubeflow.org/v1alpha1" and kind is "": both must be set`}},
		"a kind unknown": {map[string]string{"a": header + "kind: TrainJobs\n"}, []string{"a"}, []string{"a: there is no kind TrainJobs in trainer.kubeflow.org/v1alpha1: trainer.kubeflow.org/v1alpha1 has TrainJob, TrainingRuntime and ClusterTrainingRuntime"}},
		"a list":         {map[string]string{"a": header + "kind: TrainJobList\n"}, []string{"a"}, []string{"a: kind TrainJobList is none that can be rendered: give its items one by one"}},
		"a version unknown": {map[string]string{"a": strings.ReplaceAll(jobYAML, "v1alpha1", "v2")}, []string{"a"},
			[]string{"a: there is no kind TrainJob in trainer.kubeflow.org/v2: trainer.kubeflow.org/v1alpha1 has TrainJob, TrainingRuntime and ClusterTrainingRuntime"}},
		"names left out": {map[string]string{"a": header + "kind: TrainJob\n---\n" + header + "kind: TrainingRuntime\n"}, []string{"a"},
			[]string{"a: TrainJob: metadata.name must be set", "a, document 2: TrainingRuntime: metadata.name must be set"}},
		"the same twice": {map[string]string{"a": jobYAML + "---\n" + runtimeYAML, "b": jobYAML + "---\n" + runtimeYAML}, []string{"a", "b"},
			[]string{"b: TrainJob research/bert is also in a", "b, document 2: ClusterTrainingRuntime jax is also in a, document 2"}},
		"no runtime": {map[string]string{"a": jobYAML}, []string{"a"},
			[]string{"a: TrainJob research/bert: spec.runtimeRef: ClusterTrainingRuntime jax is in none of the files (they have: no runtime): add its file with -f"}},
		"a runtime of another namespace": {map[string]string{"a": strings.ReplaceAll(jobYAML, "{name: jax}", "{name: own, kind: TrainingRuntime}"), "b": namespacedYAML("own", "")}, []string{"a", "b"},
			[]string{"a: TrainJob research/bert: spec.runtimeRef: TrainingRuntime research/own is in none of the files (they have: TrainingRuntime default/own): add its file with -f"}},
		"a runtime of another group": {map[string]string{"a": strings.ReplaceAll(jobYAML, "{name: jax}", "{name: jax, apiGroup: example.com}"), "b": runtimeYAML}, []string{"a", "b"},
			[]string{"a: TrainJob research/bert: spec.runtimeRef: of a ClusterTrainingRuntime.example.com there is nothing to render: what its jobs need is made by a builder of its own, if the controller allows the kind with --opaque-runtime-kinds"}},
		"a job that cannot be built": {map[string]string{"a": jobYAML, "b": invalid}, []string{"a", "b"},
			[]string{`a: TrainJob research/bert, runtime in b: spec.runtimeRef.name: Invalid value: "jax": ClusterTrainingRuntime "jax" cannot be used for this job: spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Not found: "node": replicatedJob node is labelled trainer and must have a container of this name (it has: main): give the main one this name; correct the runtime or use another one`}},
		"what admission would refuse": {map[string]string{"a": strings.ReplaceAll(jobYAML, "{name: jax}", "{name: jax}, trainer: {env: [{name: JAX_PROCESS_ID, value: x}, {name: a=b}]}"), "b": runtimeYAML}, []string{"a", "b"},
			[]string{`a: TrainJob research/bert, runtime in b: spec.trainer.env[0].name: Forbidden: JAX_PROCESS_ID is set by the runtime's framework, whatever is given here: remove it`,
				`a: TrainJob research/bert, runtime in b: spec.trainer.env[1].name: Invalid value: "a=b": a variable's name consists of printable ASCII characters other than '=': rename it`}},
		"a runtime that fits into no snapshot": {map[string]string{"a": jobYAML, "b": strings.ReplaceAll(runtimeYAML, "{name: jax}", "{name: jax, labels: {a: "+strings.Repeat("x", 2<<20)+"}}")}, []string{"a", "b"},
			[]string{`a: TrainJob research/bert, runtime in b: ClusterTrainingRuntime "jax" takes `}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := runRender(t, tc.files, tc.names...)
			if err == nil || out != "" {
				t.Fatalf("error %v, printed:\n%s", err, out)
			}
			got := strings.Split(err.Error(), "\n")
			if last := len(tc.want) - 1; len(got) == len(tc.want) && strings.HasSuffix(tc.want[last], "takes ") {
				got[last] = got[last][:min(len(got[last]), len(tc.want[last]))]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines of the error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderWarnsAsAdmissionWould(t *testing.T) {
	job := strings.ReplaceAll(jobYAML, "{name: jax}", "{name: jax}, ttlSecondsAfterFinished: 0")
	out, warnings, err := runRender(t, map[string]string{"a": job, "b": runtimeYAML}, "a", "b")
	if err != nil || !strings.Contains(out, "kind: JobSet") {
		t.Errorf("error %v, printed:\n%s", err, out)
	}
	if want := "Warning: a: TrainJob research/bert, runtime in b: spec.ttlSecondsAfterFinished: "; !strings.HasPrefix(warnings, want) || strings.Count(warnings, "\n") != 1 {
		t.Errorf("warnings:\n%s\nwant one line that begins with %q", warnings, want)
	}
}

func TestRenderTakesEveryShippedExample(t *testing.T) {
	var names []string
	for _, folder := range []string{"examples", "runtimes"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "artifacts", folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("files %v, error %v", files, err)
		}
		for _, file := range files {
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, path)
		}
	}
	out, warnings, err := runRender(t, nil, names...)
	if err != nil || warnings != "" || !strings.Contains(out, "kind: JobSet") {
		t.Errorf("error %v, warnings:\n%sprinted:\n%s", err, warnings, out)
	}
}

func TestRenderHelpListsItsOwnFlags(t *testing.T) {
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"render", "--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if help := out.String(); !strings.Contains(help, "--filename") || strings.Contains(help, "--kube-api-qps") {
		t.Errorf("help:\n%s", help)
	}
}
