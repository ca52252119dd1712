package opaque

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestAJobIsRunByItsBuilderFromTheSnapshotAlone(t *testing.T) {
	t.Parallel()
	namespace := withBuilder(t)
	start := env.AuditNow(t)
	job := env.Create(t, newJob(namespace, "a", "SlurmRuntime", builders.TTL(3)))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)

	// A runtime that comes late is noticed, though nobody watches.
	published := publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, "BatchQueued", patience)
	env.AwaitSnapshot(t, job)
	handedOver := env.Job(t, namespace, "a").Status
	if handedOver.RuntimeSnapshot == nil || handedOver.Lifecycle == nil || handedOver.StartTime == nil {
		t.Errorf("the status of the job lacks what its builder goes by: %+v", handedOver)
	}

	// From now on the runtime does not matter.
	edit := []byte(`{"spec":{"image":"slurm:2","nodes":5}}`)
	if _, err := runtimes("slurmruntimes", namespace).Patch(t.Context(), "big", types.MergePatchType, edit, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := runtimes("slurmruntimes", namespace).Delete(t.Context(), "big", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	play(t, namespace, "a", corev1.PodRunning, 2)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, "BatchRunning", harness.Soon)
	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, "Suspended", harness.Soon)
	env.PatchJob(t, namespace, "a", harness.Resume)
	play(t, namespace, "a", corev1.PodRunning, 2)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, "BatchRunning", harness.Soon)
	if image := batch(t, namespace, "a").Spec.Template.Spec.Containers[0].Image; image != "slurm:1" {
		t.Errorf("the builder's Job has image %s, want that of the runtime when the job was made (%s)", image, published.GetName())
	}
	play(t, namespace, "a", corev1.PodSucceeded, 2)
	done := env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "BatchCompleted", harness.Soon)
	awaitGone(t, namespace, "a")

	writes := env.Writes(t, start, namespace)
	want := map[string]int{"create configmaps": 1, "patch trainjobs/status": 2, "delete trainjobs": 1}
	if diff := cmp.Diff(want, harness.Summary(writes)); diff != "" {
		t.Errorf("the controller's writes (-want +got):\n%s", diff)
	}
	wantDeletedAfter(t, writes, done, 3*time.Second)
}

// wantDeletedAfter checks that a job was deleted at its TTL after its end, as the builder
// has told it.
func wantDeletedAfter(t *testing.T, writes []cluster.AuditEvent, job *trainer.TrainJob, ttl time.Duration) {
	t.Helper()
	ended := job.Status.LastTransitionTime.Time
	for _, write := range writes {
		if write.Verb == "delete" {
			if took := write.Received.Sub(ended); took < ttl || took > ttl+20*time.Second {
				t.Errorf("the job was deleted %v after its end, want %v", took, ttl)
			}
		}
	}
}

func TestADeadlineEndsAJobThatItsBuilderRuns(t *testing.T) {
	t.Parallel()
	namespace := withBuilder(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	start := env.AuditNow(t)
	env.Create(t, newJob(namespace, "a", "SlurmRuntime", builders.Deadline(15), builders.TTL(5)))
	play(t, namespace, "a", corev1.PodRunning, 2)
	running := env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, "BatchRunning", harness.Soon)
	failed := env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, patience)
	if diff := cmp.Diff(running.Status.JobsStatus, failed.Status.JobsStatus); diff != "" {
		t.Errorf("the builder's counters were changed (-before +after):\n%s", diff)
	}
	// The builder has heard of it and stops what it has.
	awaitGone(t, namespace, "a")
	writes := env.Writes(t, start, namespace)
	want := map[string]int{"create configmaps": 1, "patch trainjobs/status": 2, "delete trainjobs": 1}
	if diff := cmp.Diff(want, harness.Summary(writes)); diff != "" {
		t.Errorf("the controller's writes (-want +got):\n%s", diff)
	}
	wantDeletedAfter(t, writes, failed, 5*time.Second)
}

func TestADeadlineBeforeThereIsARuntimeLeavesNothingToBuild(t *testing.T) {
	t.Parallel()
	namespace := withBuilder(t)
	start := env.AuditNow(t)
	env.Create(t, newJob(namespace, "a", "SlurmRuntime", builders.Deadline(3)))
	env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, patience)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	harness.Consistently(t, 8*time.Second, func() string {
		if env.SnapshotOf(t, namespace, "a") != nil || batch(t, namespace, "a") != nil {
			return "something was made for a job that has failed"
		}
		return ""
	})
	if diff := cmp.Diff(map[string]int{"patch trainjobs/status": 2}, harness.Summary(env.Writes(t, start, namespace))); diff != "" {
		t.Errorf("the controller's writes (-want +got):\n%s", diff)
	}
}

func TestASuspendedJobIsHandedOverWhenItIsResumed(t *testing.T) {
	t.Parallel()
	namespace := withBuilder(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	job := env.Create(t, newJob(namespace, "a", "SlurmRuntime", builders.Suspended(true)))
	env.AwaitSnapshot(t, job)
	harness.Eventually(t, harness.Soon, func() string {
		if env.Job(t, namespace, "a").Status.RuntimeSnapshot == nil {
			return "the snapshot is not recorded"
		}
		return ""
	})
	held := env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
	if held.Status.StartTime != nil || batch(t, namespace, "a") != nil {
		t.Errorf("the job has started while it was suspended: %+v", held.Status)
	}
	if err := runtimes("slurmruntimes", namespace).Delete(t.Context(), "big", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.PatchJob(t, namespace, "a", harness.Resume)
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, "BatchQueued", harness.Soon)
	play(t, namespace, "a", corev1.PodRunning, 2)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, "BatchRunning", harness.Soon)
}

func TestAJobThatNobodyBuildsSaysWhomItWaitsFor(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	name := "of-" + namespace
	publish(t, runtimes("clusterslurmruntimes", ""), fmt.Sprintf("{apiVersion: slurm.example.com/v1, kind: ClusterSlurmRuntime, metadata: {name: %s}}", name))
	deleteLater(t, name)
	env.Create(t, newJob(namespace, "a", "ClusterSlurmRuntime", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.Name = name }))
	pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonExternalRuntime, harness.Soon)
	want := "the job is left to the builder of ClusterSlurmRuntime.slurm.example.com, which has not said anything yet"
	if pending.Status.Message != want {
		t.Errorf("message %q, want %q", pending.Status.Message, want)
	}
	if env.JobSetOf(t, namespace, "a") != nil {
		t.Error("the job has a JobSet")
	}
}
