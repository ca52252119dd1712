package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// Serial, as the next one, so that nothing else goes on meanwhile.
func TestAnIdleControllerWritesNothing(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	env.NewJob(t, namespace, "waits-for-runtime", builders.Runtime(trainer.TrainingRuntimeKind, "none"))
	env.NewJob(t, namespace, "unknown-runtime", builders.Runtime("Foo", "none"))
	env.NewJob(t, namespace, "queued", builders.Suspended(true))
	env.NewJob(t, namespace, "waits-for-pods", builders.TTL(3600), builders.Deadline(3600))
	env.NewJob(t, namespace, "foreign", builders.ManagedBy(trainer.ManagedByMultiKueue), builders.Deadline(1))
	env.NewJob(t, namespace, "suspended")
	env.AwaitJobSet(t, env.NewJob(t, namespace, "running"), false)
	env.AwaitJobSet(t, env.NewJob(t, namespace, "done", builders.TTL(3600)), false)
	env.AwaitJobSet(t, env.Job(t, namespace, "suspended"), false)
	env.PatchJob(t, namespace, "suspended", harness.Suspend)
	setJobSetStatus(t, namespace, "running", counting(builders.Ready("node")))
	setJobSetStatus(t, namespace, "done", completed)
	for name, state := range map[string]trainer.TrainJobState{
		"waits-for-runtime": trainer.TrainJobPending, "unknown-runtime": trainer.TrainJobFailed, "queued": trainer.TrainJobSuspended,
		"waits-for-pods": trainer.TrainJobPending, "suspended": trainer.TrainJobSuspended,
		"running": trainer.TrainJobRunning, "done": trainer.TrainJobComplete,
	} {
		env.AwaitState(t, namespace, name, state, "", harness.Soon)
	}
	awaitQuiet(t, 3*time.Second)
	position := env.AuditNow(t)
	before := env.Job(t, namespace, "running").ResourceVersion
	harness.Consistently(t, 20*time.Second, func() string { return "" })
	ours := env.Audit(t, position, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Match: func(e cluster.AuditEvent) bool {
		return e.Verb != "watch" // which the API server ends now and then
	}})
	if len(ours) > 0 {
		t.Errorf("an idle controller made requests: %v, the first of them %+v", harness.Summary(ours), ours[0])
	}
	if after := env.Job(t, namespace, "running").ResourceVersion; after != before {
		t.Error("the running job was written to")
	}
	if job := env.Job(t, namespace, "foreign"); job.Status.State != "" || env.SnapshotOf(t, namespace, "foreign") != nil {
		t.Errorf("the job of another controller has state %q or a snapshot", job.Status.State)
	}
}

// awaitQuiet waits until the controller has written nothing for a while, events for
// people included.
func awaitQuiet(t *testing.T, during time.Duration) {
	t.Helper()
	position, since := env.AuditNow(t), time.Now()
	harness.Eventually(t, time.Minute, func() string {
		now := env.AuditNow(t)
		writes := env.Audit(t, position, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Writes: true})
		if len(writes) > 0 {
			position, since = now, time.Now()
		}
		if time.Since(since) < during {
			return "the controller is still busy"
		}
		return ""
	})
}

func TestTheWritesOfOneJob(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	start := env.AuditNow(t)
	job := env.NewJob(t, namespace, "a", builders.TTL(3600), builders.Deadline(3600))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
	env.AwaitJobSet(t, job, false)
	setJobSetStatus(t, namespace, "a", counting(builders.Waiting("node")))
	harness.Eventually(t, harness.Soon, func() string {
		if jobs := env.Job(t, namespace, "a").Status.JobsStatus; len(jobs) != 1 || jobs[0].Active != 1 {
			return "the counters are not mirrored"
		}
		return ""
	})
	setJobSetStatus(t, namespace, "a", counting(builders.Ready("node")))
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	setJobSetStatus(t, namespace, "a", completed)
	done := env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	awaitQuiet(t, 2*time.Second)

	got := harness.Summary(env.Writes(t, start, namespace))
	want := map[string]int{"create configmaps": 1, "create jobsets": 1, "patch trainjobs/status": 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes of one job (-want +got):\n%s", diff)
	}
	if done.Status.StartTime == nil || done.Status.CompletionTime == nil || done.Status.Nodes == nil || *done.Status.Nodes != 2 {
		t.Errorf("the status of the finished job lacks times or nodes: %+v", done.Status)
	}
}
