package stack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestATorchJobRunsToItsEndWithFewWrites(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	start := env.AuditNow(t)
	env.NewJob(t, namespace, "a", builders.Trainer(trainer.Trainer{
		Env:            []corev1.EnvVar{{Name: "RDZV", Value: "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)"}},
		NumProcPerNode: ptr.To[int32](3),
	}))
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	pods := podsOf(t, namespace, "a", "node")
	if len(pods) != 2 {
		t.Errorf("%d pods, want 2", len(pods))
	}
	for _, pod := range pods {
		checkTorchEnv(t, pod)
	}
	done := env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	if done.Status.StartTime == nil || done.Status.CompletionTime == nil || ptr.Deref(done.Status.Nodes, 0) != 2 {
		t.Errorf("the finished job lacks times or nodes: %+v", done.Status)
	}
	harness.Consistently(t, 2*time.Second, func() string { return "" }) // the last counters

	summary := harness.Summary(env.Writes(t, start, namespace))
	t.Logf("writes: %v", summary)
	if summary["create configmaps"] != 1 || summary["create jobsets"] != 1 || summary["patch trainjobs/status"] > 7 || len(summary) != 3 {
		t.Errorf("writes %v, want two creates and at most seven of the status", summary)
	}
	last := env.Job(t, namespace, "a")
	want := trainer.JobStatus{Name: "node", Ready: 0, Succeeded: 1}
	if len(last.Status.JobsStatus) != 1 || last.Status.JobsStatus[0] != want {
		t.Errorf("counters at the end: %+v, want %+v", last.Status.JobsStatus, want)
	}
}

func checkTorchEnv(t *testing.T, pod corev1.Pod) {
	t.Helper()
	values := map[string]string{}
	var order []string
	for _, v := range pod.Spec.Containers[0].Env {
		order = append(order, v.Name)
		values[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			values[v.Name] = v.ValueFrom.FieldRef.FieldPath
		}
	}
	for name, want := range map[string]string{
		"PET_NNODES": "2", "PET_NPROC_PER_NODE": "3", "PET_MASTER_ADDR": "a-node-0-0.a", "PET_MASTER_PORT": "29500",
		"PET_NODE_RANK": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
		"RDZV":          "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)",
	} {
		if values[name] != want {
			t.Errorf("%s of pod %s is %q, want %q", name, pod.Name, values[name], want)
		}
	}
	if slices.Index(order, "RDZV") < slices.Index(order, "PET_MASTER_PORT") {
		t.Errorf("variables %v, want the user's after those it refers to", order)
	}
	if _, ranked := pod.Annotations["batch.kubernetes.io/job-completion-index"]; !ranked {
		t.Errorf("pod %s has no index", pod.Name)
	}
	if pod.Spec.Subdomain != "a" || !strings.HasPrefix(pod.Spec.Hostname, "a-node-0-") {
		t.Errorf("pod %s is reached as %s.%s, want a-node-0-<index>.a", pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain)
	}
}

// JobSet, Jobs and pods append to a job's name. 48 characters are the most that ten nodes
// leave room for.
func TestALongNameWithTenNodesRuns(t *testing.T) {
	for _, length := range []int{47, 48} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			longName(t, strings.Repeat("n", length))
		})
	}
}

func longName(t *testing.T, name string) {
	t.Helper()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	start := env.AuditNow(t)
	env.NewJob(t, namespace, name, builders.Trainer(trainer.Trainer{NumNodes: ptr.To[int32](10)}))
	hosts := map[string]bool{}
	for _, pod := range awaitPods(t, namespace, name, 10) {
		hosts[pod.Spec.Hostname+"."+pod.Spec.Subdomain] = true
	}
	for i := range 10 {
		if want := fmt.Sprintf("%s-node-0-%d.%s", name, i, name); !hosts[want] {
			t.Errorf("no pod is reached as %s, only %v", want, hosts)
		}
	}
	env.AwaitState(t, namespace, name, trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	letGo(t, namespace, name)
	env.AwaitState(t, namespace, name, trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	nothingRefused(t, start, namespace)
}

func TestAFailedPodFailsTheJobInJobSetsWords(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := annotated(builders.TorchSpec(), "node", cluster.ExitCodeAnnotation, "1")
	spec.Template.Spec.ReplicatedJobs[0].Template.Spec.BackoffLimit = ptr.To[int32](0)
	env.NewRuntime(t, namespace, spec)
	env.NewJob(t, namespace, "a")
	failed := env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, "FailedJobs", harness.Soon)
	js := env.JobSetOf(t, namespace, "a")
	end := meta.FindStatusCondition(js.Status.Conditions, string(jobset.JobSetFailed))
	condition := meta.FindStatusCondition(failed.Status.Conditions, string(trainer.TrainJobFailed))
	if end == nil || condition.Reason != end.Reason || condition.Message != end.Message {
		t.Errorf("the job failed with %+v, its JobSet with %+v", condition, end)
	}
	env.AwaitEvent(t, namespace, "a", "Warning/Failed")
}

func TestAJobThatFailsOnceSucceedsAfterTheRestart(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := annotated(builders.TorchSpec(), "node", cluster.ExitCodeAnnotation, "1")
	spec = annotated(spec, "node", cluster.FailingAttemptsAnnotation, "1")
	spec.Template.Spec.ReplicatedJobs[0].Template.Spec.BackoffLimit = ptr.To[int32](0)
	spec.Template.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: 1}
	env.NewRuntime(t, namespace, spec)
	env.NewJob(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", 2*harness.Soon)
	if js := env.JobSetOf(t, namespace, "a"); js.Status.Restarts != 1 {
		t.Errorf("the JobSet has restarted %d times, want once", js.Status.Restarts)
	}
}

func TestTheTimeToLiveTakesEverythingAlong(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	env.NewJob(t, namespace, "a", builders.TTL(3))
	done := env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	if len(podsOf(t, namespace, "a", "")) == 0 {
		t.Error("the pods went before the job")
	}
	env.AwaitGone(t, namespace, "a")
	if lived := time.Since(done.Status.CompletionTime.Time); lived < 3*time.Second {
		t.Errorf("the job was kept for %v, want 3s", lived)
	}
	awaitNothingLeft(t, namespace, "a")
}

// awaitNothingLeft waits until nothing is left of what JobSet made for a job.
func awaitNothingLeft(t *testing.T, namespace, job string) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		services, err := env.Core.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		pods, jobs := podsOf(t, namespace, job, ""), childJobs(t, namespace, job)
		if len(pods)+len(jobs)+len(services.Items) > 0 {
			return fmt.Sprintf("%d pods, %d Jobs and %d Services are left", len(pods), len(jobs), len(services.Items))
		}
		return ""
	})
}

func TestTheDeadlineEndsRunningPods(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	start := env.AuditNow(t)
	job := env.NewJob(t, namespace, "a", builders.Deadline(8))
	awaitPods(t, namespace, "a", 2)
	failed := env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, harness.Soon)
	if after := failed.Status.CompletionTime.Sub(job.CreationTimestamp.Time); after < 8*time.Second || after > 11*time.Second {
		t.Errorf("the job failed %v after its creation, want 8s", after)
	}
	harness.Eventually(t, harness.Soon, func() string {
		if env.JobSetOf(t, namespace, "a") != nil {
			return "the JobSet is still there"
		}
		return ""
	})
	awaitNothingLeft(t, namespace, "a")
	harness.Eventually(t, harness.Soon, func() string {
		for _, counts := range env.Job(t, namespace, "a").Status.JobsStatus {
			if counts != (trainer.JobStatus{Name: counts.Name}) {
				return fmt.Sprintf("the counters of a job without pods are %+v", counts)
			}
		}
		return ""
	})
	env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, harness.Soon)
	nothingRefused(t, start, namespace)
}

func TestATrainerThatWaitsForNodesIsNotRunning(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.InitializerSpec())
	env.NewJob(t, namespace, "a", builders.Trainer(trainer.Trainer{ResourcesPerNode: &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1000")},
	}}))
	harness.Eventually(t, harness.Soon, func() string {
		for _, counts := range env.Job(t, namespace, "a").Status.JobsStatus {
			if counts.Name == trainer.StepModelInitializer && counts.Succeeded == 1 {
				return ""
			}
		}
		return "the initializers have not finished"
	})
	waits := func() string {
		job := env.Job(t, namespace, "a")
		switch {
		case job.Status.State != trainer.TrainJobPending || job.Status.Reason != trainer.ReasonWaitingForPods:
			return fmt.Sprintf("the job is %s", job.Status.State)
		case !strings.Contains(job.Status.Message, `"node"`):
			return "the message does not name the training job: " + job.Status.Message
		}
		return ""
	}
	harness.Eventually(t, harness.Soon, waits)
	harness.Consistently(t, 3*time.Second, waits)
}

// JobSet's admission is the last to judge a runtime. What it refuses, it refuses for as
// long as the snapshot lasts.
func TestARuntimeThatJobSetRefusesIsReportedAndSeldomTriedAgain(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	spec := builders.TorchSpec()
	spec.Template.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"no-such-job"}}
	env.NewRuntime(t, namespace, spec)
	start := env.AuditNow(t)
	env.NewJob(t, namespace, "a")
	pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonCreationFailed, harness.Soon)
	message := pending.Status.Message
	for _, name := range []string{"a-runtime-snapshot", "no-such-job"} {
		if !strings.Contains(message, name) {
			t.Errorf("the message does not name %s: %s", name, message)
		}
	}
	if len(message) > 1000 {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
	env.AwaitEvent(t, namespace, "a", "Warning/CreationFailed")
	harness.Consistently(t, 10*time.Second, func() string { return "" })
	tries := env.Audit(t, start, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Namespace: namespace, Resource: "jobsets", Writes: true})
	// At once, when its own status comes back, and then after 1, 1, 2 and 4 seconds.
	if len(tries) > 7 {
		t.Errorf("the JobSet was tried %d times in 10s", len(tries))
	}
}
