package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// createMany makes jobs a-0, a-1, …, several at a time.
func createMany(t *testing.T, namespace string, n int) []*trainer.TrainJob {
	t.Helper()
	jobs := make([]*trainer.TrainJob, n)
	var creators sync.WaitGroup
	for worker := range 10 {
		creators.Go(func() {
			for i := worker; i < n; i += 10 {
				job := builders.TrainJob(fmt.Sprintf("a-%d", i), builders.Runtime(trainer.TrainingRuntimeKind, "torch"))
				job.Namespace = namespace
				created, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create %s: %v", job.Name, err)
					return
				}
				jobs[i] = created
			}
		})
	}
	creators.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return jobs
}

// awaitAllWaiting waits until every job waits for the pods of its JobSet.
func awaitAllWaiting(t *testing.T, jobs []*trainer.TrainJob) {
	t.Helper()
	for _, job := range jobs {
		env.AwaitState(t, job.Namespace, job.Name, trainer.TrainJobPending, trainer.ReasonWaitingForPods, time.Minute)
	}
}

// syncs reads from /metrics how many syncs have ended in each way, as "queue result".
func syncs(t *testing.T) map[string]int {
	t.Helper()
	text, err := env.Controller.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, match := range regexp.MustCompile(`trainjob_controller_sync_duration_seconds_count\{queue="(\w+)",result="(\w+)"\} (\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(match[3])
		if err != nil {
			t.Fatal(err)
		}
		counts[match[1]+" "+match[2]] = n
	}
	return counts
}

// The cache is a moment behind our own writes. A controller that takes it at its word
// creates twice, is refused, and backs off.
func TestManyJobsAtOnceCauseNoErrorsAndNoRetries(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	before := syncs(t)
	log, err := os.ReadFile(env.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	start := env.AuditNow(t)
	jobs := createMany(t, namespace, 100)
	awaitAllWaiting(t, jobs)

	after := syncs(t)
	t.Logf("syncs: %v", after)
	for _, queue := range []string{"snapshot", "jobset", "deadline", "ttl"} {
		for _, result := range []string{"conflict", "permanent", "delayed", "retry", "error", "panic"} {
			if n := after[queue+" "+result] - before[queue+" "+result]; n != 0 {
				t.Errorf("%d syncs of the queue %s ended in %s", n, queue, result)
			}
		}
	}
	whole, err := os.ReadFile(env.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^[EW]\d{4} .*$`).Find(bytes.TrimPrefix(whole, log)); line != nil {
		t.Errorf("the log has an error: %s", line)
	}
	writes := env.Writes(t, start, namespace)
	summary := harness.Summary(writes)
	t.Logf("writes: %v", summary)
	want := map[string]int{"create configmaps": len(jobs), "create jobsets": len(jobs), "patch trainjobs/status": len(jobs)}
	if diff := cmp.Diff(want, summary); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	env.DeleteNamespace(t, namespace) // before the next test looks for silence
}

// editing changes the image of a runtime twenty times a second until it is told to stop. It
// then says how many versions that made, and in what time.
func editing(t *testing.T, namespace string) (stop func() (versions int64, took time.Duration)) {
	t.Helper()
	runtimes := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace)
	before, err := runtimes.Get(t.Context(), harness.RuntimeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var (
		editors sync.WaitGroup
		begun   = time.Now()
		numbers atomic.Int64
	)
	tick := time.NewTicker(50 * time.Millisecond)
	// They share the ticks: on a busy machine a request may take longer than from one to
	// the next.
	for range 4 {
		editors.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				patch := imagePatch(fmt.Sprintf("image:%d", numbers.Add(1)))
				if _, err := runtimes.Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsConflict(err) {
					t.Errorf("edit the runtime: %v", err)
					return
				}
			}
		})
	}
	return func() (int64, time.Duration) {
		t.Helper()
		cancel()
		took := time.Since(begun)
		editors.Wait()
		tick.Stop()
		after, err := runtimes.Get(t.Context(), harness.RuntimeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return after.Generation - before.Generation, took
	}
}

func TestAJobIsBuiltFromOneVersionOfItsRuntime(t *testing.T) {
	t.Parallel()
	const count = 200
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	start := env.AuditNow(t)

	edits := editing(t, namespace)
	jobs := createMany(t, namespace, count)
	awaitAllWaiting(t, jobs)
	n, took := edits()
	t.Logf("the runtime was edited %d times in %v", n, took)
	if perSecond := float64(n) / took.Seconds(); perSecond < 10 {
		t.Errorf("the runtime was edited %.1f times a second, want 10 at least: too few to say anything", perSecond)
	}

	images := map[string]bool{}
	for _, job := range jobs {
		frozen, built := frozenImage(t, env.SnapshotOf(t, namespace, job.Name)), builtImage(env.JobSetOf(t, namespace, job.Name).Spec)
		if frozen != built {
			t.Errorf("job %s: the snapshot has image %s, the JobSet %s", job.Name, frozen, built)
		}
		images[frozen] = true
	}
	t.Logf("%d versions are in use", len(images))
	if len(images) < 2 {
		t.Errorf("all jobs have the same version of the runtime, which says nothing: %v", images)
	}
	perJob := map[string]int{}
	for _, write := range env.Audit(t, start, cluster.AuditFilter{Namespace: namespace, Resource: "configmaps", Writes: true, UserAgentPrefix: harness.ControllerAgent}) {
		if write.Verb != "create" || write.Code != 201 {
			t.Errorf("%s of ConfigMap %s, code %d", write.Verb, write.Name, write.Code)
		}
		perJob["all"]++
	}
	if perJob["all"] != count {
		t.Errorf("ConfigMaps were written %d times for %d jobs", perJob["all"], count)
	}
}
