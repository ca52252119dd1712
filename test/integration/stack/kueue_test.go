package stack

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

func TestKueuesWayOfAdmittingAndEvicting(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := holding(builders.TorchSpec())
	spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	env.NewRuntime(t, namespace, spec)
	start := env.AuditNow(t)
	job := env.NewJob(t, namespace, "a", builders.Suspended(true), builders.TTL(2), builders.Deadline(300),
		builders.Patches(trainer.RuntimePatch{Manager: harness.KueueManager}))
	env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
	if env.JobSetOf(t, namespace, "a") != nil {
		t.Error("a queued job has a JobSet")
	}

	for range 2 {
		env.UpdateAsKueue(t, namespace, "a", func(spec map[string]any) { spec["runtimePatches"] = harness.KueueAssignment() })
		env.UpdateAsKueue(t, namespace, "a", func(spec map[string]any) { spec["suspend"] = false })
		for _, pod := range awaitPods(t, namespace, "a", 2) {
			checkAssigned(t, pod)
		}
		env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)

		env.UpdateAsKueue(t, namespace, "a", func(spec map[string]any) { spec["suspend"] = true })
		env.AwaitJobSet(t, job, true)
		env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
		harness.Eventually(t, harness.Soon, func() string {
			for _, counts := range env.Job(t, namespace, "a").Status.JobsStatus {
				if counts.Active > 0 {
					return "the status still counts an active job"
				}
			}
			return ""
		})
		env.UpdateAsKueue(t, namespace, "a", func(spec map[string]any) {
			spec["runtimePatches"] = []any{map[string]any{"manager": harness.KueueManager}}
		})
		awaitUnassigned(t, namespace)
	}

	env.UpdateAsKueue(t, namespace, "a", func(spec map[string]any) { spec["suspend"] = false })
	for _, pod := range awaitPods(t, namespace, "a", 2) {
		if len(pod.Spec.NodeSelector) > 0 || pod.Labels["kueue.x-k8s.io/podset"] != "" {
			t.Errorf("pod %s still carries what Kueue took back: %v, %v", pod.Name, pod.Spec.NodeSelector, pod.Labels)
		}
	}
	letGo(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	env.AwaitGone(t, namespace, "a") // the limit that Kueue's types have dropped
	nothingRefused(t, start, namespace)
}

func checkAssigned(t *testing.T, pod corev1.Pod) {
	t.Helper()
	if pod.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("pod %s has node selector %v", pod.Name, pod.Spec.NodeSelector)
	}
	if pod.Labels["kueue.x-k8s.io/podset"] != "node" || pod.Annotations["kueue.x-k8s.io/workload"] != "trainjob-a" {
		t.Errorf("pod %s lacks Kueue's metadata: %v, %v", pod.Name, pod.Labels, pod.Annotations)
	}
	keys := map[string]bool{}
	for _, toleration := range pod.Spec.Tolerations {
		keys[toleration.Key] = true
	}
	if !keys["gpu"] || !keys["spot"] {
		t.Errorf("pod %s tolerates %v, want what Kueue says and what the runtime says", pod.Name, pod.Spec.Tolerations)
	}
}

func awaitUnassigned(t *testing.T, namespace string) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		pod := env.JobSetOf(t, namespace, "a").Spec.ReplicatedJobs[0].Template.Spec.Template
		if len(pod.Spec.NodeSelector) > 0 || pod.Labels["kueue.x-k8s.io/podset"] != "" {
			return fmt.Sprintf("the JobSet still has what Kueue took back: %v", pod.Spec.NodeSelector)
		}
		return ""
	})
}

// Kueue evicts a job by suspending the TrainJob and, as the JobSet has a queue of its
// own, the JobSet at almost the same time. The controller hears of the two in any order.
// Serial, because the process is stopped again and again so that it hears of both at once.
func TestAnEvictedJobIsNotResumedFromAnOldCache(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	job := env.NewJob(t, namespace, "a")
	awaitPods(t, namespace, "a", 2)
	var evicted atomic.Bool
	resumed := watchResumptions(t, namespace, &evicted)
	for range 15 {
		evict(t, namespace, "a")
		evicted.Store(true)
		harness.Consistently(t, 300*time.Millisecond, func() string {
			if !ptr.Deref(env.JobSetOf(t, namespace, "a").Spec.Suspend, false) {
				return "the JobSet of an evicted job runs"
			}
			return ""
		})
		if resumed.Load() {
			t.Fatal("the JobSet of an evicted job was resumed in between")
		}
		evicted.Store(false)
		env.PatchJob(t, namespace, "a", harness.Resume)
		env.AwaitJobSet(t, job, false)
	}
}

// evict suspends a job and its JobSet while the controller does not look.
func evict(t *testing.T, namespace, name string) {
	t.Helper()
	signal(t, syscall.SIGSTOP)
	defer signal(t, syscall.SIGCONT)
	env.PatchJob(t, namespace, name, harness.Suspend)
	_, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(harness.Suspend), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

func signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(env.Controller.Pid(), s); err != nil {
		t.Fatal(err)
	}
}

// watchResumptions tells whether a JobSet was found unsuspended after it had been
// suspended, while evicted says that it must not be.
func watchResumptions(t *testing.T, namespace string, evicted *atomic.Bool) *atomic.Bool {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var resumed atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		wasSuspended := false
		for event := range events.ResultChan() {
			js, ok := event.Object.(*jobset.JobSet)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			suspended := ptr.Deref(js.Spec.Suspend, false)
			if wasSuspended && !suspended && evicted.Load() {
				resumed.Store(true)
			}
			wasSuspended = suspended
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return &resumed
}

// Kueue may also suspend the JobSet alone, for a moment, and then the TrainJob: the
// job's own wish counts in the end.
func TestAJobSetSuspendedByAnotherFollowsItsJob(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	start := env.AuditNow(t)
	job := env.NewJob(t, namespace, "a")
	awaitPods(t, namespace, "a", 2)
	if _, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(harness.Suspend), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, harness.Soon, func() string {
		if js := env.JobSetOf(t, namespace, "a"); js.Generation < 3 {
			return "the JobSet has not been resumed"
		}
		return ""
	})
	env.AwaitJobSet(t, job, false)
	awaitPods(t, namespace, "a", 2)
	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitJobSet(t, job, true)
	nothingRefused(t, start, namespace)
}
