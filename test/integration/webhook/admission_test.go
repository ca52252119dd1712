package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// jobYAML is a job as a user writes it; spec is indented by two.
func jobYAML(namespace, name, spec string) string {
	return fmt.Sprintf(`apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %s, namespace: %s}
spec:
  runtimeRef: {name: torch, kind: TrainingRuntime}
%s`, name, namespace, spec)
}

const longName = "a-name-of-forty-seven-characters-which-is-a-lot" // 47 characters

func TestKubectlShowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	cases := map[string]struct {
		yaml string
		want []string // all of it in what kubectl prints
	}{
		"a runtime that does not exist": {
			strings.Replace(jobYAML(namespace, "a", ""), "name: torch", "name: pytorch", 1),
			[]string{`The TrainJob "a" is invalid`, "spec.runtimeRef.name", `"pytorch"`, "does not exist"},
		},
		"a runtime of the cluster that does not exist": {
			strings.Replace(jobYAML(namespace, "a", ""), "{name: torch, kind: TrainingRuntime}", "{name: pytorch-of-nobody}", 1),
			[]string{`The TrainJob "a" is invalid`, "spec.runtimeRef.name", `"pytorch-of-nobody"`, "ClusterTrainingRuntime", "does not exist"},
		},
		"a patch of a container that does not exist": {
			jobYAML(namespace, "a", `
  runtimePatches:
  - manager: me.example/me
    trainingRuntimeSpec:
      template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: pytroch}]}}}}}]}}
`),
			[]string{`The TrainJob "a" is invalid`, "spec.runtimePatches[0]", "pytroch"},
		},
		"a variable that the framework sets": {
			jobYAML(namespace, "a", "  trainer: {env: [{name: PET_NNODES, value: '7'}]}\n"),
			[]string{`The TrainJob "a" is invalid`, "spec.trainer.env[0]", "PET_NNODES"},
		},
		"a name that is too long for its pods": {
			jobYAML(namespace, longName, "  trainer: {numNodes: 1000}\n"),
			[]string{`is invalid`, longName + "-node-0-999-xxxxx", "63"},
		},
		"what the schema refuses is told in the API server's words": {
			jobYAML(namespace, "a", "  trainer: {numNodes: two}\n"),
			[]string{"spec.trainer.numNodes", "must be of type integer"},
		},
		"a kind of runtime that nobody understands": {
			strings.Replace(jobYAML(namespace, "a", ""), "kind: TrainingRuntime", "kind: Foo", 1),
			[]string{`The TrainJob "a" is invalid`, "spec.runtimeRef", "Foo", "--opaque-runtime-kinds"},
		},
		"a runtime that injects into a container that does not exist": {
			fmt.Sprintf(`apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: broken, namespace: %s}
spec:
  mlPolicy: {torch: {envInjection: {targets: [{jobName: node, containerNames: [sidecra]}]}}}
  template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: node:test}]}}}}}]}}
`, namespace),
			[]string{`The TrainingRuntime "broken" is invalid`, "envInjection", "sidecra"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := apply(t, tc.yaml)
			if err == nil {
				t.Fatalf("accepted:\n%s", out)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			t.Log(out)
		})
	}
}

func TestALongNameIsAcceptedWhereItsPodsFit(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	if out, err := apply(t, jobYAML(namespace, longName, "  suspend: true\n  trainer: {numNodes: 10}\n")); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestKubectlShowsWarnings(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	out, err := apply(t, jobYAML(namespace, "a", "  suspend: true\n  ttlSecondsAfterFinished: 5\n"))
	if err != nil || !strings.Contains(out, "Warning: spec.ttlSecondsAfterFinished") || !strings.Contains(out, "trainjob.trainer.kubeflow.org/a created") {
		t.Errorf("%v: %s", err, out)
	}
}

// A cache that is a moment old must not refuse a job: its runtime comes from the same
// file, one document earlier.
func TestARuntimeAndItsJobAreAppliedTogether(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace)
	for i := range 30 {
		name := fmt.Sprintf("together-%d", i)
		runtime := builders.TrainingRuntime(name, builders.TorchSpec())
		runtime.Namespace = namespace
		if _, err := runtimes.Create(t.Context(), runtime, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		env.NewJob(t, namespace, name, builders.Runtime(trainer.TrainingRuntimeKind, name), builders.Suspended(true))
		// An edit that makes the next job possible counts at once, too.
		_, err := runtimes.Patch(t.Context(), name, types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/name","value":"worker"}]`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patch := trainer.RuntimePatch{Manager: "me.example/me", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
			Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{Name: "worker"}}}},
		}}
		env.NewJob(t, namespace, name+"-edited", builders.Runtime(trainer.TrainingRuntimeKind, name), builders.Suspended(true), builders.Patches(patch))
	}
}

func TestTheTimeOfAPatchIsSetWhenItChanges(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	before := time.Now().Add(-time.Second)
	job := env.NewJob(t, namespace, "a", builders.Suspended(true), builders.Patches(placed("one", "x"), placed("two", "x")))
	times := func(job *trainer.TrainJob) [2]time.Time {
		t.Helper()
		var got [2]time.Time
		for i, patch := range job.Spec.RuntimePatches {
			if patch.Time == nil || patch.Time.Time.Before(before) || patch.Time.After(time.Now().Add(time.Second)) {
				t.Fatalf("the time of patch %s is %v", patch.Manager, patch.Time)
			}
			got[i] = patch.Time.Time
		}
		return got
	}
	created := times(job)
	if labelled := times(env.PatchJob(t, namespace, "a", `{"metadata":{"labels":{"a":"b"}}}`)); labelled != created {
		t.Errorf("times %v after a label was set, want %v", labelled, created)
	}
	harness.Eventually(t, harness.Soon, func() string { // times are whole seconds
		if time.Since(created[0]) < 1100*time.Millisecond {
			return "too early for another time"
		}
		return ""
	})
	update(t, namespace, "a", func(job *trainer.TrainJob) {
		job.Spec.RuntimePatches[1] = placed("two", "y")
		job.Spec.RuntimePatches[0].Time = nil // as clients do that know no such field
	})
	changed := times(env.Job(t, namespace, "a"))
	if changed[0] != created[0] || !changed[1].After(created[1]) {
		t.Errorf("times %v after the second patch was changed, want the first to be %v and the second to be later", changed, created[0])
	}
}

func TestADroppedLimitIsPutBackWithAWarning(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	env.NewJob(t, namespace, "a", builders.Suspended(true), builders.TTL(300), builders.Deadline(600))
	out := env.Kubectl(t, "patch", "tj", "a", "-n", namespace, "--type=json", "-p", `[{"op":"remove","path":"/spec/ttlSecondsAfterFinished"}]`)
	if !strings.Contains(out, "Warning: spec.ttlSecondsAfterFinished: 300 was put back") {
		t.Errorf("no warning in %s", out)
	}
	job := env.Job(t, namespace, "a")
	if ptr.Deref(job.Spec.TTLSecondsAfterFinished, -1) != 300 || ptr.Deref(job.Spec.ActiveDeadlineSeconds, -1) != 600 {
		t.Errorf("limits are %v and %v", job.Spec.TTLSecondsAfterFinished, job.Spec.ActiveDeadlineSeconds)
	}
}

func TestARehearsalChangesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	out, err := apply(t, jobYAML(namespace, "a", "  ttlSecondsAfterFinished: 5\n"), "--dry-run=server")
	if err != nil || !strings.Contains(out, "created (server dry run)") || !strings.Contains(out, "Warning: spec.ttl") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the job: %v, want that it does not exist", err)
	}
}

// placed is the entry of a manager that sets a node selector of the training pods.
func placed(manager, value string) trainer.RuntimePatch {
	return trainer.RuntimePatch{Manager: "example.com/" + manager, TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
			Name: "node", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
				Spec: &trainer.PodSpecPatch{NodeSelector: map[string]string{"zone": value}},
			}}},
		}}}},
	}}
}

// update changes a job by a whole update.
func update(t *testing.T, namespace, name string, change func(*trainer.TrainJob)) {
	t.Helper()
	var refused error
	for range 20 {
		job := env.Job(t, namespace, name)
		change(job)
		if _, refused = env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Update(t.Context(), job, metav1.UpdateOptions{}); !apierrors.IsConflict(refused) {
			break
		}
	}
	if refused != nil {
		t.Fatal(refused)
	}
}
