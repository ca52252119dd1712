package opaque

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// rich is the body of a runtime with whatever an API server keeps.
const rich = `
  image: "slurm:1"
  nodes: 3
  unknown: {to: [the, TrainJob, controller]}
  integers: [9223372036854775807, -9223372036854775808, 9007199254740993, 0]
  numbers: [0.1, 1.5e-300, 1.7976931348623157e+308, 2.5]
  beyond: 18446744073709551615
  empty: {map: {}, list: [], text: "", nested: [{}, [], [[]]]}
  matrix: [[1, [2, [3, {deep: [4]}]]], []]
  nothing: null
  words: ["yes", "no", "null", "~", "0x1F", "1e3", "12:30:45", "2001-01-01", "<<", "=", "- a", "a: b", "# c", " d ", "two\nlines\n"]
  "yes": {"1": a, "true": b, "": c, "<<": d}
  script: |
    #!/bin/bash
    srun --mpi=pmix "$@"	# a tab
  odd: "\x7f\x85\u2028\ufeff<&>"
`

func deleteLater(t *testing.T, clusterRuntime string) {
	t.Helper()
	t.Cleanup(func() {
		if err := runtimes("clusterslurmruntimes", "").Delete(context.Background(), clusterRuntime, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// reduced is an object as it has to be in a snapshot.
func reduced(object *unstructured.Unstructured) map[string]any {
	want := object.DeepCopy()
	metadata := map[string]any{"name": object.GetName()}
	if object.GetNamespace() != "" {
		metadata["namespace"] = object.GetNamespace()
	}
	if labels, found, _ := unstructured.NestedMap(object.Object, "metadata", "labels"); found {
		metadata["labels"] = labels
	}
	if annotations, found, _ := unstructured.NestedMap(object.Object, "metadata", "annotations"); found {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		metadata["annotations"] = annotations
	}
	want.Object["metadata"] = metadata
	delete(want.Object, "status")
	return want.Object
}

func TestASnapshotIsTheRuntimeToTheLastBit(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for kind, resource := range map[string]string{"SlurmRuntime": "slurmruntimes", "ClusterSlurmRuntime": "clusterslurmruntimes"} {
		t.Run(kind, func(t *testing.T) {
			name, in := "of-"+namespace, namespace
			if kind == "ClusterSlurmRuntime" {
				in = ""
			}
			client := runtimes(resource, in)
			publish(t, client, fmt.Sprintf(`
apiVersion: slurm.example.com/v1
kind: %s
metadata:
  name: %s
  labels: {team: vision, "example.com/n": "1"}
  annotations: {note: "kept: \"quoted\"", kubectl.kubernetes.io/last-applied-configuration: "{}"}
  finalizers: [example.com/held-by-test]
accounts: [{name: a, limits: {}, quota: 9007199254740993}, {name: b, tags: [[x], []]}]
spec:%s`, kind, name, rich))
			t.Cleanup(func() { letGo(t, resource, in, name) })
			if kind == "SlurmRuntime" {
				if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"ready":true}}`), metav1.PatchOptions{}, "status"); err != nil {
					t.Fatal(err)
				}
			}
			live, err := client.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// Suspended, so that nobody builds from it.
			job := env.Create(t, newJob(namespace, strings.ToLower(kind), kind, builders.Suspended(true), func(job *trainer.TrainJob) { job.Spec.RuntimeRef.Name = name }))
			cm := env.AwaitSnapshot(t, job)
			if diff := cmp.Diff(reduced(live), parsed(t, cm.Data["runtime"]).Object); diff != "" {
				t.Errorf("the snapshot is not the runtime (-runtime +snapshot):\n%s\n%s", diff, cm.Data["runtime"])
			}
			if cm.Immutable == nil || !*cm.Immutable || cm.Labels[trainer.LabelTrainJobName] != job.Name || len(cm.Data) != 1 {
				t.Errorf("the ConfigMap is not as those of other runtimes: %+v", cm)
			}
			if owner := metav1.GetControllerOf(cm); owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
				t.Errorf("the snapshot does not block its owner's deletion: %v", owner)
			}
		})
	}
}

func letGo(t *testing.T, resource, namespace, name string) {
	t.Helper()
	client := runtimes(resource, namespace)
	_, err := client.Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		err = client.Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestARuntimeThatIsTooLargeIsWaitedFor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	runtime := parsed(t, slurmRuntime)
	runtime.Object["spec"].(map[string]any)["script"] = strings.Repeat("x", 1<<20)
	if _, err := runtimes("slurmruntimes", namespace).Create(t.Context(), runtime, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := env.Create(t, newJob(namespace, "a", "SlurmRuntime"))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonSnapshotTooLarge, harness.Soon)
	env.PatchJob(t, namespace, "a", harness.Suspend) // so that nobody builds from it
	smaller := []byte(`{"spec":{"script":"srun"}}`)
	if _, err := runtimes("slurmruntimes", namespace).Patch(t.Context(), "big", types.MergePatchType, smaller, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, func() string {
		if env.SnapshotOf(t, namespace, "a") == nil {
			return "there is no snapshot of the runtime that is smaller now"
		}
		return ""
	})
	env.AwaitSnapshot(t, job)
}

func TestASnapshotDeletedByHandIsTakenAgainAndTheStateStaysTheBuilders(t *testing.T) {
	t.Parallel()
	namespace := withBuilder(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	job := env.Create(t, newJob(namespace, "a", "SlurmRuntime"))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, "BatchQueued", harness.Soon)
	before := env.AwaitSnapshot(t, job)
	if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, harness.Soon, func() string {
		now := env.Job(t, namespace, "a").Status.RuntimeSnapshot
		if now == nil || now.UID == before.UID {
			return "status.runtimeSnapshot still names the lost one"
		}
		return ""
	})
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, "BatchQueued", harness.Soon)
}
