package api

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/harness"
)

var runtimeKinds = []schema.GroupVersionResource{runtimes, clusterRuntimes}

// fullRuntime sets the fields that a JobSet keeps for ever, but for startupPolicy and
// dependsOn, which exclude each other.
const fullRuntime = `
spec:
  template:
    spec:
      failurePolicy: {maxRestarts: 1}
      network: {enableDNSHostnames: true, subdomain: old}
      successPolicy: {operator: All, targetReplicatedJobs: [node]}
      volumeClaimPolicies:
      - templates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
        retentionPolicy: {whenDeleted: Delete}
      replicatedJobs:
      - name: first
        template: {spec: {template: {spec: {containers: [{name: c, image: "c:1"}]}}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: "node:1"}]}}}
`

// In a JobSet these fields are fixed. In a runtime they are a template's, which the jobs
// that exist have copied.
func TestEveryFieldOfARuntimeCanBeEdited(t *testing.T) {
	t.Parallel()
	template := func(fields string) string { return `spec: {template: {spec: {` + fields + `}}}` }
	jobs := func(dependsOn string) string {
		return template(`replicatedJobs: [
			{name: first, template: {spec: {template: {spec: {containers: [{name: c, image: "c:1"}]}}}}},
			{name: node, ` + dependsOn + ` template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: "node:2"}]}}}}}]`)
	}
	already := map[string]string{
		"startupPolicy": template(`startupPolicy: {startupPolicyOrder: InOrder}`),
		"dependsOn":     jobs(`dependsOn: [{name: first, status: Complete}],`),
	}
	for field, edits := range map[string][]string{
		"failurePolicy": {template(`failurePolicy: {maxRestarts: 5}`), template(`failurePolicy: null`)},
		"network":       {template(`network: {subdomain: new}`), template(`network: null`)},
		"successPolicy": {template(`successPolicy: {operator: Any, targetReplicatedJobs: [first]}`), template(`successPolicy: null`)},
		"startupPolicy": {template(`startupPolicy: {startupPolicyOrder: AnyOrder}`), template(`startupPolicy: null`)},
		"volumeClaimPolicies": {
			template(`volumeClaimPolicies: [{templates: [{metadata: {name: other}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}}], retentionPolicy: {whenDeleted: Retain}}]`),
			template(`volumeClaimPolicies: null`)},
		"dependsOn": {jobs(`dependsOn: [{name: first, status: Ready}],`), jobs(``)},
		"mlPolicy":  {`spec: {mlPolicy: {numNodes: 4, torch: {}}}`, `spec: {mlPolicy: {torch: null, jax: {}}}`},
		"the jobs":  {template(`replicatedJobs: [{name: other, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: x, image: "x:1"}]}}}}}]`)},
	} {
		for _, resource := range runtimeKinds {
			t.Run(kinds[resource]+": "+field+" of a runtime in use", func(t *testing.T) {
				t.Parallel()
				runtime := create(t, resource, fullRuntime, already[field], "metadata: {generateName: edited-}")
				use(t, runtime)
				for _, edit := range edits {
					patch(t, resource, runtime.GetName(), edit) // fails the test if refused
				}
			})
			// From absent to present is the direction that a rule of the kind
			// "self == oldSelf" would not even notice.
			t.Run(kinds[resource]+": "+field+" of a plain runtime in use", func(t *testing.T) {
				t.Parallel()
				runtime := create(t, resource, baseRuntime, jobs(``), "metadata: {name: null, generateName: edited-}")
				use(t, runtime)
				patch(t, resource, runtime.GetName(), edits[0])
				patch(t, resource, runtime.GetName(), edits[len(edits)-1])
			})
		}
	}
}

// use creates a job of a runtime.
func use(t *testing.T, runtime *unstructured.Unstructured) {
	t.Helper()
	create(t, trainJobs, baseJob, `metadata: {name: null, generateName: uses-}`,
		`spec: {runtimeRef: {kind: `+runtime.GetKind()+`, name: `+runtime.GetName()+`}}`)
}

// A schema without metadata below the template would silently prune the labels by which
// the training job is found.
func TestMetadataInsideARuntimeSurvives(t *testing.T) {
	t.Parallel()
	const labelled = `
spec:
  template:
    metadata: {labels: {l: jobset}, annotations: {a: jobset}}
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            annotations: {a: job}
          spec:
            template:
              metadata: {labels: {l: pod}, annotations: {a: pod}}
              spec: {containers: [{name: node, image: "node:1"}]}
`
	for _, resource := range runtimeKinds {
		t.Run(kinds[resource], func(t *testing.T) {
			t.Parallel()
			name := create(t, resource, labelled, "metadata: {generateName: labelled-}").GetName()
			read := patch(t, resource, name, "metadata: {labels: {touched: by-a-patch}}")
			job := replicatedJob(t, read, "node")
			for _, want := range []struct {
				value string
				path  []string
				in    map[string]any
			}{
				{"jobset", []string{"spec", "template", "metadata", "labels", "l"}, read.Object},
				{"jobset", []string{"spec", "template", "metadata", "annotations", "a"}, read.Object},
				{trainer.StepTrainer, []string{"template", "metadata", "labels", trainer.LabelAncestorStep}, job},
				{"job", []string{"template", "metadata", "annotations", "a"}, job},
				{"pod", []string{"template", "spec", "template", "metadata", "labels", "l"}, job},
				{"pod", []string{"template", "spec", "template", "metadata", "annotations", "a"}, job},
			} {
				if got, _, _ := unstructured.NestedString(want.in, want.path...); got != want.value {
					t.Errorf("%v is %q, want %q", want.path, got, want.value)
				}
			}
		})
	}
}

func replicatedJob(t *testing.T, runtime *unstructured.Unstructured, name string) map[string]any {
	t.Helper()
	jobs, _, err := unstructured.NestedSlice(runtime.Object, "spec", "template", "spec", "replicatedJobs")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(jobs, func(job any) bool { return job.(map[string]any)["name"] == name })
	if at < 0 {
		t.Fatalf("no replicatedJob %q in %v", name, jobs)
	}
	return jobs[at].(map[string]any)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resource schema.GroupVersionResource
		layers   []string
		path     []string
		want     any
	}{
		"the runtime's group":    {trainJobs, []string{baseJob}, []string{"spec", "runtimeRef", "apiGroup"}, "trainer.kubeflow.org"},
		"the runtime's kind":     {trainJobs, []string{baseJob}, []string{"spec", "runtimeRef", "kind"}, "ClusterTrainingRuntime"},
		"not suspended":          {trainJobs, []string{baseJob}, []string{"spec", "suspend"}, false},
		"managed by us":          {trainJobs, []string{baseJob}, []string{"spec", "managedBy"}, "trainer.kubeflow.org/trainjob-controller"},
		"no deadline":            {trainJobs, []string{baseJob}, []string{"spec", "activeDeadlineSeconds"}, nil},
		"no time to live":        {trainJobs, []string{baseJob}, []string{"spec", "ttlSecondsAfterFinished"}, nil},
		"mpi, processes":         {runtimes, []string{baseRuntime, `spec: {mlPolicy: {mpi: {}}}`}, []string{"spec", "mlPolicy", "mpi", "numProcPerNode"}, int64(1)},
		"mpi, implementation":    {runtimes, []string{baseRuntime, `spec: {mlPolicy: {mpi: {}}}`}, []string{"spec", "mlPolicy", "mpi", "mpiImplementation"}, "OpenMPI"},
		"mpi, folder":            {runtimes, []string{baseRuntime, `spec: {mlPolicy: {mpi: {}}}`}, []string{"spec", "mlPolicy", "mpi", "sshAuthMountPath"}, "/root/.ssh"},
		"mpi, launcher":          {runtimes, []string{baseRuntime, `spec: {mlPolicy: {mpi: {}}}`}, []string{"spec", "mlPolicy", "mpi", "runLauncherAsNode"}, false},
		"flux, processes":        {clusterRuntimes, []string{baseRuntime, `spec: {mlPolicy: {flux: {}}}`}, []string{"spec", "mlPolicy", "flux", "numProcPerNode"}, int64(1)},
		"coscheduling, timeout":  {clusterRuntimes, []string{baseRuntime, `spec: {podGroupPolicy: {coscheduling: {}}}`}, []string{"spec", "podGroupPolicy", "coscheduling", "scheduleTimeoutSeconds"}, int64(60)},
		"volcano, mode":          {runtimes, []string{baseRuntime, `spec: {podGroupPolicy: {volcano: {networkTopology: {}}}}`}, []string{"spec", "podGroupPolicy", "volcano", "networkTopology", "mode"}, "hard"},
		"volcano, tier":          {runtimes, []string{baseRuntime, `spec: {podGroupPolicy: {volcano: {networkTopology: {}}}}`}, []string{"spec", "podGroupPolicy", "volcano", "networkTopology", "highestTierAllowed"}, int64(1)},
		"an empty torch is kept": {runtimes, []string{baseRuntime, `spec: {mlPolicy: {torch: {}}}`}, []string{"spec", "mlPolicy", "torch"}, map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := create(t, c.resource, append(c.layers, "metadata: {name: null, generateName: defaults-}")...)
			got, _, err := unstructured.NestedFieldNoCopy(created.Object, c.path...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", c.path, diff)
			}
		})
	}
}

// Whoever applies a folder again, as pipelines do, sees what has changed.
func TestASecondApplyOfTheShippedRuntimesChangesNothing(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(harness.SourceDir(), "artifacts", "runtimes")
	env.Kubectl(t, "apply", "-k", folder)
	t.Cleanup(func() {
		if out, err := env.TryKubectl(context.Background(), "delete", "-k", folder); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	lines := strings.Split(strings.TrimSpace(env.Kubectl(t, "apply", "-k", folder)), "\n")
	if len(lines) < 10 {
		t.Errorf("%d runtimes are applied: %v", len(lines), lines)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " unchanged") {
			t.Error(line)
		}
	}
}
