package webhook

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// updateAsKueue writes the whole job, and checks that the time limits are still there.
func updateAsKueue(t *testing.T, namespace string, change func(spec map[string]any)) {
	t.Helper()
	env.UpdateAsKueue(t, namespace, "a", change)
	job := env.Job(t, namespace, "a")
	if ptr.Deref(job.Spec.TTLSecondsAfterFinished, -1) != 2 || ptr.Deref(job.Spec.ActiveDeadlineSeconds, -1) != 300 {
		t.Errorf("limits after Kueue's update: %v, %v, want them put back", job.Spec.TTLSecondsAfterFinished, job.Spec.ActiveDeadlineSeconds)
	}
}

func trainingPods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	list, err := env.Core.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=a"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// awaitPods waits until two training pods run that Kueue has or has not assigned a place.
func awaitPods(t *testing.T, namespace string, placed bool) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		running := 0
		for _, pod := range trainingPods(t, namespace) {
			if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase != corev1.PodRunning {
				continue
			}
			running++
			if got := pod.Labels["kueue.x-k8s.io/podset"] == "node" && pod.Spec.NodeSelector[corev1.LabelOSStable] == "linux"; got != placed {
				return fmt.Sprintf("pod %s: labels %v, node selector %v", pod.Name, pod.Labels, pod.Spec.NodeSelector)
			}
		}
		if running != 2 {
			return fmt.Sprintf("%d pods run, want 2", running)
		}
		return ""
	})
}

func TestKueuesWayOfAdmittingAndEvictingPassesAdmission(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding())
	job := env.NewJob(t, namespace, "a", builders.Suspended(true), builders.TTL(2), builders.Deadline(300),
		builders.Patches(trainer.RuntimePatch{Manager: harness.KueueManager}))
	env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
	for range 2 {
		updateAsKueue(t, namespace, func(spec map[string]any) { spec["runtimePatches"] = harness.KueueAssignment() })
		updateAsKueue(t, namespace, func(spec map[string]any) { spec["suspend"] = false })
		awaitPods(t, namespace, true)
		env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
		updateAsKueue(t, namespace, func(spec map[string]any) { spec["suspend"] = true })
		env.AwaitJobSet(t, job, true)
		harness.Eventually(t, harness.Soon, func() string {
			for _, counts := range env.Job(t, namespace, "a").Status.JobsStatus {
				if counts.Active > 0 {
					return "the status still counts an active job"
				}
			}
			return ""
		})
		updateAsKueue(t, namespace, func(spec map[string]any) {
			spec["runtimePatches"] = []any{map[string]any{"manager": harness.KueueManager}}
		})
	}
	updateAsKueue(t, namespace, func(spec map[string]any) { spec["suspend"] = false })
	awaitPods(t, namespace, false)
	letGo := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cluster.HoldAnnotation)
	for _, pod := range trainingPods(t, namespace) {
		if _, err := env.Core.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, letGo, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	env.AwaitGone(t, namespace, "a") // completed, and then the limit
}
