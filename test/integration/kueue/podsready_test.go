package kueue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

const podsReadyTimeout = 8 * time.Second

// Serial, because Kueue is another one for its time.
func TestWaitForPodsReady(t *testing.T) {
	if err := env.Cluster.SetKueuePodsReady(t.Context(), podsReadyTimeout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Cluster.SetKueuePodsReady(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("a job whose pods do not get ready is evicted, and admitted again", evictedForItsPods)
	t.Run("MPI on one node is not, and the worker's quota is given back", mpiOnOneNode)
}

func evictedForItsPods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(harness.Annotated(builders.TorchSpec(), "node", cluster.HoldAnnotation, cluster.HoldPending), "1"))
	submit(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
	var first []string
	harness.Eventually(t, harness.Soon, func() string {
		first = uids(env.LivePods(t, namespace, "a", ""))
		if len(first) != 2 {
			return fmt.Sprintf("the job has %d pods", len(first))
		}
		return ""
	})
	harness.Eventually(t, podsReadyTimeout+2*harness.Soon, func() string {
		if reasons := workloadOf(t, namespace, "a").evictions(); !slices.Contains(reasons, "PodsReadyTimeout") {
			return fmt.Sprintf("the job was evicted for %v", reasons)
		}
		return ""
	})
	// The pods of the next attempt, which may start.
	harness.Eventually(t, 2*harness.Soon, func() string {
		now := uids(env.LivePods(t, namespace, "a", ""))
		if len(now) != 2 || now[0] == first[0] || now[0] == first[1] {
			return fmt.Sprintf("the pods of the second attempt are %v, those of the first were %v", now, first)
		}
		return ""
	})
	env.LetGo(t, namespace, "a", "")
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "", 2*harness.Soon)
	awaitWorkload(t, namespace, "a", "Finished")
}

func uids(pods []corev1.Pod) []string {
	var all []string
	for _, pod := range pods {
		all = append(all, string(pod.UID))
	}
	return all
}

// With runLauncherAsNode the launcher is the one node, and the job of the workers has no
// pods. Kueue counts one there nevertheless, and waits for it.
func mpiOnOneNode(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	job := builders.TrainJob("a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "deepspeed-distributed"), queued,
		builders.Trainer(trainer.Trainer{
			NumNodes:         ptr.To[int32](1),
			ResourcesPerNode: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *quantity(1)}},
		}),
		builders.Patches(trainer.RuntimePatch{Manager: "example.com/test", TrainingRuntimeSpec: heldLauncher()}))
	job.Namespace = namespace
	env.Create(t, job)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, 2*harness.Soon)
	admitted := awaitWorkload(t, namespace, "a", "PodsReady")
	harness.Consistently(t, 2*podsReadyTimeout, func() string {
		w := workloadOf(t, namespace, "a")
		if len(w.evictions()) > 0 || w.UID != admitted.UID || !w.is("PodsReady") {
			return fmt.Sprintf("the job is not left alone: %+v", w.Status.Conditions)
		}
		return ""
	})
	given := workloadOf(t, namespace, "a").Status.ReclaimablePods
	if len(given) != 1 || given[0].Name != "node" || given[0].Count != 1 {
		t.Errorf("the pods that Kueue takes quota back of are %+v, want the one worker", given)
	}
	finish(t, namespace, "a")
}

func heldLauncher() *trainer.TrainingRuntimeSpecPatch {
	var patch trainer.TrainingRuntimeSpecPatch
	patch.Template = &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
		Name: "launcher", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
			Metadata: metadata(cluster.HoldAnnotation, cluster.HoldRunning),
		}}},
	}}}}
	return &patch
}

func metadata(key, value string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Annotations: map[string]string{key: value}}
}
