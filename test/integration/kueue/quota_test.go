package kueue

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestQuotaForOneOfTwoJobs(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "a")
	awaitRunningIn(t, namespace, "a", "spot", 2)
	submit(t, namespace, "b")
	awaitHeldBack(t, namespace, "b")
	harness.Consistently(t, 3*time.Second, func() string {
		switch {
		case env.JobSetOf(t, namespace, "b") != nil:
			return "a job that waits for quota has a JobSet"
		case workloadOf(t, namespace, "b").is("Admitted"):
			return "both jobs are admitted"
		}
		return ""
	})
	finish(t, namespace, "a")
	awaitRunningIn(t, namespace, "b", "spot", 2)
	finish(t, namespace, "b")
}

func TestAPreemptedJobGoesOnWithAnotherFlavor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot", "reserved")
	low, high := namespace+"-low", namespace+"-high"
	create(t, "workloadpriorityclasses", "", `{kind: WorkloadPriorityClass, metadata: {name: `+low+`}, value: 1}`)
	create(t, "workloadpriorityclasses", "", `{kind: WorkloadPriorityClass, metadata: {name: `+high+`}, value: 2}`)
	env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "first", priority(low))
	awaitRunningIn(t, namespace, "first", "spot", 2)
	before := map[string]bool{}
	for _, pod := range env.PodsOf(t, namespace, "first", "") {
		before[string(pod.UID)] = true
	}

	submit(t, namespace, "second", priority(high))
	awaitRunningIn(t, namespace, "second", "spot", 2)
	harness.Eventually(t, 2*harness.Soon, func() string {
		for _, pod := range env.PodsOf(t, namespace, "first", "") {
			if before[string(pod.UID)] {
				return "pod " + pod.Name + " of the preempted job is still there"
			}
		}
		return ""
	})
	awaitRunningIn(t, namespace, "first", "reserved", 2)
	if reasons := workloadOf(t, namespace, "first").evictions(); !slices.Equal(reasons, []string{"Preempted"}) {
		t.Errorf("the first job was evicted for %v, want preemption", reasons)
	}
	resumed := env.Job(t, namespace, "first").Status
	if resumed.ResumeTime == nil || len(resumed.Conditions) > 0 {
		t.Errorf("a job that runs again was resumed at %v and has conditions %v", resumed.ResumeTime, resumed.Conditions)
	}
	finish(t, namespace, "first")
	finish(t, namespace, "second")
}

// Kueue's types do not know the time to live, and its plugins write whole jobs: at each
// admission, and at each eviction.
func TestLimitsSurviveWhatKueueWrites(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "a", builders.TTL(5), builders.Deadline(600))
	for range 2 {
		awaitRunningIn(t, namespace, "a", "spot", 2)
		setActive(t, namespace, "a", false)
		awaitHeldBack(t, namespace, "a")
		setActive(t, namespace, "a", true)
	}
	awaitRunningIn(t, namespace, "a", "spot", 2)
	job := env.Job(t, namespace, "a")
	limits := job.Status.Lifecycle
	if limits == nil || ptr.Deref(limits.TTLSecondsAfterFinished, -1) != 5 || ptr.Deref(limits.ActiveDeadlineSeconds, -1) != 600 {
		t.Errorf("the limits enforced are %+v", limits)
	}
	if ptr.Deref(job.Spec.TTLSecondsAfterFinished, -1) != 5 || ptr.Deref(job.Spec.ActiveDeadlineSeconds, -1) != 600 {
		t.Errorf("the limits in the spec are %v and %v", job.Spec.TTLSecondsAfterFinished, job.Spec.ActiveDeadlineSeconds)
	}
	env.LetGo(t, namespace, "a", "")
	env.AwaitGone(t, namespace, "a")
}

func TestDeadlinesGiveQuotaBack(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "running", builders.Deadline(40))
	awaitRunningIn(t, namespace, "running", "spot", 2)
	submit(t, namespace, "waiting", builders.Deadline(8))
	submit(t, namespace, "next")

	env.AwaitState(t, namespace, "waiting", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 2*harness.Soon)
	if w := awaitWorkload(t, namespace, "waiting", "Finished"); w.Status.Admission != nil {
		t.Errorf("a job that failed in its queue holds quota: %+v", w.Status.Admission)
	}
	if env.JobSetOf(t, namespace, "waiting") != nil {
		t.Error("a job that failed in its queue has a JobSet")
	}
	env.AwaitState(t, namespace, "running", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 3*harness.Soon)
	awaitWorkload(t, namespace, "running", "Finished")
	awaitRunningIn(t, namespace, "next", "spot", 2)
	finish(t, namespace, "next")
}

func TestAJobOfMultiKueueIsNotTouched(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(builders.TorchSpec(), "1"))
	start := env.AuditNow(t)
	submit(t, namespace, "a", builders.ManagedBy(trainer.ManagedByMultiKueue), builders.Deadline(3), builders.TTL(0))
	awaitWorkload(t, namespace, "a", "Admitted")
	harness.Consistently(t, 8*time.Second, func() string {
		if status := env.Job(t, namespace, "a").Status; status.State != "" || len(status.Conditions) > 0 {
			return "the job has a status"
		}
		return ""
	})
	if writes := env.Audit(t, start, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Writes: true, Namespace: namespace}); len(writes) > 0 {
		t.Errorf("the controller has written: %v", harness.Summary(writes))
	}
}

// Kueue's plugin rewrites the command of a torchtune job while the job is suspended.
func TestATorchtuneJobStarts(t *testing.T) {
	t.Parallel()
	env.ProvideVolumes(t)
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	job := builders.TrainJob("a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "torchtune-llama3.2-1b"), queued, builders.Trainer(trainer.Trainer{
		Command: []string{"tune", "run"}, Args: []string{"epochs=1"},
		ResourcesPerNode: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *quantity(2)}},
	}))
	job.Namespace = namespace
	env.Create(t, job)
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", 3*harness.Soon)
	awaitWorkload(t, namespace, "a", "Finished")
	for _, pod := range env.PodsOf(t, namespace, "a", "node") {
		if pod.Spec.NodeSelector[poolLabel] != "spot" {
			t.Errorf("pod %s has the node selector %v", pod.Name, pod.Spec.NodeSelector)
		}
	}
}

// Kueue computes a job's pods from the runtime as it is now, and the controller goes by the
// snapshot. docs/kueue.md tells of what follows.
func TestAnEditOfTheRuntimeReadmitsARunningJob(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	runtime := env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "a")
	awaitRunningIn(t, namespace, "a", "spot", 2)
	first := workloadOf(t, namespace, "a").UID

	runtime.Spec = withCPU(runtime.Spec, "500m")
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Update(t.Context(), runtime, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	touch(t, namespace, "a")
	harness.Eventually(t, 2*harness.Soon, func() string {
		if w := workloadOf(t, namespace, "a"); w == nil || w.UID == first || !w.is("Admitted") {
			return "the job has not been admitted anew"
		}
		return ""
	})
	awaitRunningIn(t, namespace, "a", "spot", 2)
	for _, pod := range env.LivePods(t, namespace, "a", "node") {
		if cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "1" {
			t.Errorf("pod %s asks for %s CPU, want what the snapshot says", pod.Name, cpu)
		}
	}
	finish(t, namespace, "a")
}

func TestAFinishedJobOfADeletedRuntimeHoldsItsQuota(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	newQueue(t, namespace, "spot")
	env.NewRuntime(t, namespace, withCPU(harness.Holding(builders.TorchSpec()), "1"))
	submit(t, namespace, "a")
	awaitRunningIn(t, namespace, "a", "spot", 2)
	if err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Delete(t.Context(), harness.RuntimeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.LetGo(t, namespace, "a", "")
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "", 2*harness.Soon)
	harness.Consistently(t, 3*time.Second, func() string {
		if workloadOf(t, namespace, "a").is("Finished") {
			return "Kueue notices the end of a job whose runtime is gone: docs/kueue.md says otherwise"
		}
		return ""
	})
	_, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(harness.Suspend), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "vtrainjob.kb.io") {
		t.Errorf("a change of a job whose runtime is gone: %v, want that Kueue refuses it", err)
	}
	// A remedy of docs/kueue.md: the runtime is made again.
	env.NewRuntime(t, namespace, withCPU(builders.TorchSpec(), "1"))
	touch(t, namespace, "a")
	awaitWorkload(t, namespace, "a", "Finished")
}
