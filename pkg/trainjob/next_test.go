package trainjob

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func TestBlockedJobIsPending(t *testing.T) {
	for _, reason := range []string{
		trainer.ReasonWaitingForRuntime, trainer.ReasonRuntimeInvalid, trainer.ReasonSnapshotConflict,
		trainer.ReasonSnapshotTooLarge, trainer.ReasonSnapshotInvalid, trainer.ReasonJobSetConflict,
		trainer.ReasonCreationFailed, trainer.ReasonExternalRuntime,
	} {
		t.Run(reason, func(t *testing.T) {
			got := Next(builders.TrainJob("a"), Observed{Blocked: &Cause{reason, "because of b"}}, builders.At(1))
			expect(t, "verdict", verdict{trainer.TrainJobPending, reason, "because of b"}, verdictOf(t, got))
			expect(t, "state", []string{"Pending " + reason + " @1"}, lines(got))
		})
	}
}

func TestState(t *testing.T) {
	running := builders.Jobs(builders.Waiting("init"), builders.Ready("node"))
	completed := builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "jobset completed successfully")
	failed := builders.Ended(jobset.JobSetFailed, "ReachedMaxRestarts", "jobset failed due to max restarts")
	deadline := &Cause{trainer.ReasonDeadlineExceeded, "active for longer than 30 seconds"}
	quota := &Cause{trainer.ReasonCreationFailed, "exceeded quota"}
	suspendedVerdict := verdict{trainer.TrainJobSuspended, trainer.ReasonSuspended, "spec.suspend is true"}
	runningVerdict := verdict{trainer.TrainJobRunning, trainer.ReasonPodsReady, `all pods of job "node" are ready`}
	completeVerdict := verdict{trainer.TrainJobComplete, "AllJobsCompleted", "jobset completed successfully"}

	cases := map[string]struct {
		suspended bool
		jobSet    []builders.JobSetOption // nil: no JobSet
		blocked   *Cause
		failure   *Cause
		want      verdict
	}{
		"nothing is there yet": {
			want: verdict{trainer.TrainJobPending, trainer.ReasonWaitingForPods, "the JobSet is about to be created"},
		},
		"no job has all its pods ready": {
			jobSet: []builders.JobSetOption{builders.Jobs(builders.Waiting("node"))},
			want:   verdict{trainer.TrainJobPending, trainer.ReasonWaitingForPods, `waiting for the pods of job "node" to be ready`},
		},
		"one job of two has all its pods ready": {jobSet: []builders.JobSetOption{running}, want: runningVerdict},
		"pods that are ready count for more than a problem met meanwhile": {
			jobSet: []builders.JobSetOption{running}, blocked: quota, want: runningVerdict,
		},
		"counters of a JobSet that is held back are leftovers": {
			jobSet: []builders.JobSetOption{running, builders.HeldBack(true)},
			want:   verdict{trainer.TrainJobPending, trainer.ReasonWaitingForPods, `waiting for the pods of job "init" to be ready`},
		},
		"suspended without a JobSet":             {suspended: true, want: suspendedVerdict},
		"suspended while pods are still running": {suspended: true, jobSet: []builders.JobSetOption{running, builders.HeldBack(false)}, want: suspendedVerdict},
		"suspended and blocked: the user is told in time what will be in the way": {suspended: true, blocked: quota, want: verdict{
			trainer.TrainJobSuspended, trainer.ReasonSuspended,
			"spec.suspend is true; when resumed the job will be Pending for CreationFailed: exceeded quota",
		}},
		"completed takes over reason and message":    {jobSet: []builders.JobSetOption{completed}, want: completeVerdict},
		"completed though pods still count as ready": {jobSet: []builders.JobSetOption{running, completed}, want: completeVerdict},
		"completed while suspended":                  {suspended: true, jobSet: []builders.JobSetOption{completed}, want: completeVerdict},
		"completion wins over the deadline":          {jobSet: []builders.JobSetOption{completed}, failure: deadline, want: completeVerdict},
		"completion wins over a problem":             {jobSet: []builders.JobSetOption{completed}, blocked: quota, want: completeVerdict},
		"failed takes over reason and message": {
			jobSet: []builders.JobSetOption{failed},
			want:   verdict{trainer.TrainJobFailed, "ReachedMaxRestarts", "jobset failed due to max restarts"},
		},
		"the deadline fails a running job": {
			jobSet: []builders.JobSetOption{running}, failure: deadline,
			want: verdict{trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, deadline.Message},
		},
		"the deadline fails a suspended job": {
			suspended: true, failure: deadline,
			want: verdict{trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, deadline.Message},
		},
		"a runtime that is not supported fails the job": {
			failure: &Cause{trainer.ReasonTrainingRuntimeNotSupported, "kind Foo"},
			want:    verdict{trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, "kind Foo"},
		},
		"a condition of the JobSet that is not True ends nothing": {
			jobSet: []builders.JobSetOption{running, completed, func(js *jobset.JobSet) {
				js.Status.Conditions[0].Status = metav1.ConditionFalse
			}},
			want: runningVerdict,
		},
		"another condition of the JobSet ends nothing": {
			jobSet: []builders.JobSetOption{running, builders.Ended(jobset.JobSetStartupPolicyCompleted, "Started", "")},
			want:   runningVerdict,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", builders.Suspended(tc.suspended))
			seen := Observed{Blocked: tc.blocked, Failure: tc.failure}
			if tc.jobSet != nil {
				seen.JobSet = builders.JobSetOf(job, tc.jobSet...)
			}
			expect(t, "verdict", tc.want, verdictOf(t, Next(job, seen, builders.At(1))))
		})
	}
}

func TestWaitingNamesTheJobThatHoldsThingsUp(t *testing.T) {
	type counters = []jobset.ReplicatedJobStatus
	cases := map[string]struct {
		jobs counters
		want string
	}{
		"the initializer is fetching": {
			counters{builders.Waiting("dataset-initializer"), builders.NotStarted("node")},
			`waiting for the pods of job "dataset-initializer" to be ready`,
		},
		"the initializer has succeeded and the trainer waits for its pods": {
			counters{builders.Succeeded("dataset-initializer"), builders.Waiting("node")},
			`waiting for the pods of job "node" to be ready`,
		},
		"the same, listed the other way round": {
			counters{builders.Waiting("node"), builders.Succeeded("dataset-initializer")},
			`waiting for the pods of job "node" to be ready`,
		},
		"the initializer has succeeded and the trainer has not been made": {
			counters{builders.Succeeded("dataset-initializer"), builders.NotStarted("node")},
			`waiting for job "node" to start; if that lasts, the events of JobSet "a" and of its Jobs say why`,
		},
		"the Job is suspended": {
			counters{{Name: "node", Suspended: 1}}, `waiting for job "node" to start; if that lasts, the events of JobSet "a" and of its Jobs say why`,
		},
		"a failed Job is about to be made anew": {
			counters{{Name: "node", Failed: 1}}, `waiting for the JobSet to start its jobs; if that lasts, the events of JobSet "a" say why`,
		},
		"nothing has been counted": {nil, `waiting for the JobSet to start its jobs; if that lasts, the events of JobSet "a" say why`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			got := Next(job, Observed{JobSet: builders.JobSetOf(job, builders.Jobs(tc.jobs...))}, builders.At(1))
			expect(t, "verdict", verdict{trainer.TrainJobPending, trainer.ReasonWaitingForPods, tc.want}, verdictOf(t, got))
		})
	}
}

func TestARestartShowsInTheMessageAndIsCounted(t *testing.T) {
	job := builders.TrainJob("a")
	restarted := func(times int32, conditions ...metav1.Condition) *jobset.JobSet {
		js := builders.JobSetOf(job, builders.Jobs(builders.Waiting("node")))
		js.Status.Restarts, js.Status.Conditions = times, conditions
		return js
	}
	because := metav1.Condition{Type: string(jobset.JobSetRestarting), Status: metav1.ConditionTrue, Message: "applying RestartJobSet failure policy action (first failed job: a-node-0)"}
	over := because
	over.Status = metav1.ConditionFalse
	const waiting = `waiting for the pods of job "node" to be ready`
	cases := map[string]struct {
		jobSet *jobset.JobSet
		want   string
	}{
		"never restarted":          {restarted(0), waiting},
		"restarted, and why":       {restarted(1, because), waiting + " (attempt 2, after JobSet has restarted the job: " + because.Message + ")"},
		"restarted, why no longer": {restarted(2, over), waiting + " (attempt 3, after JobSet has restarted the job)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(job, Observed{JobSet: tc.jobSet}, builders.At(1))
			expect(t, "verdict", verdict{trainer.TrainJobPending, trainer.ReasonWaitingForPods, tc.want}, verdictOf(t, got))
			expect(t, "restarts", tc.jobSet.Status.Restarts, got.Restarts)
		})
	}
	t.Run("the count outlives the JobSet", func(t *testing.T) {
		job := step(job, 1, Observed{JobSet: restarted(2)})
		expect(t, "restarts", int32(2), Next(job, Observed{}, builders.At(2)).Restarts)
	})
}

func TestOrderOfAJobSetsCountersIsNoNews(t *testing.T) {
	for name, count := range map[string]func(string) jobset.ReplicatedJobStatus{
		"while pods are waited for": builders.Waiting,
		"while jobs wait to start":  builders.NotStarted,
		"while jobs run":            builders.Ready,
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			seen := func(first, second string) Observed {
				return Observed{JobSet: builders.JobSetOf(job, builders.Jobs(count(first), count(second)))}
			}
			job = step(job, 1, seen("launcher", "node"))
			expect(t, "status", &job.Status, Next(job, seen("node", "launcher"), builders.At(2)))
		})
	}
}

func TestFirstStatusOfAJobIsWhole(t *testing.T) {
	job := builders.TrainJob("a", builders.TTL(60), builders.Deadline(600))
	seen := Observed{
		JobSet:   builders.JobSetOf(job, builders.Jobs(builders.NotStarted("node"))),
		Snapshot: &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", UID: "u", Digest: "sha256:0"},
		Nodes:    ptr.To[int32](2),
	}
	now := builders.At(5).Add(700 * time.Millisecond)
	stamp := metav1.NewTime(builders.At(5))
	want := &trainer.TrainJobStatus{
		State:              trainer.TrainJobPending,
		Reason:             trainer.ReasonWaitingForPods,
		Message:            `waiting for job "node" to start; if that lasts, the events of JobSet "a" and of its Jobs say why`,
		LastTransitionTime: &stamp,
		JobsStatus:         []trainer.JobStatus{{Name: "node"}},
		StartTime:          &stamp,
		Nodes:              ptr.To[int32](2),
		RuntimeSnapshot:    seen.Snapshot,
		Lifecycle: &trainer.LifecycleLimits{
			TTLSecondsAfterFinished: ptr.To[int32](60), ActiveDeadlineSeconds: ptr.To[int64](600),
		},
	}
	expect(t, "status", want, Next(job, seen, now))
}

func TestNextKeepsWhatItIsNotTold(t *testing.T) {
	job := builders.TrainJob("a", builders.TTL(60), builders.Deadline(600))
	job = step(job, 1, Observed{
		JobSet:   builders.JobSetOf(job),
		Snapshot: &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", Digest: "sha256:0"},
		Nodes:    ptr.To[int32](2),
	})
	// A client with older types drops the two limits from the spec.
	job.Spec.TTLSecondsAfterFinished, job.Spec.ActiveDeadlineSeconds = nil, nil
	before := job.Status.DeepCopy()

	after := Next(job, Observed{}, builders.At(2))
	expect(t, "snapshot", before.RuntimeSnapshot, after.RuntimeSnapshot)
	expect(t, "nodes", before.Nodes, after.Nodes)
	expect(t, "start time", before.StartTime, after.StartTime)
	expect(t, "lifecycle", before.Lifecycle, after.Lifecycle)
}

func TestStartTimeIsWhenTheJobSetWasFirstUnsuspended(t *testing.T) {
	job := builders.TrainJob("a")
	at := func(second int, seen Observed) *metav1.Time {
		job = step(job, second, seen)
		return job.Status.StartTime
	}
	expect(t, "without a JobSet", (*metav1.Time)(nil), at(1, Observed{}))
	expect(t, "held back", (*metav1.Time)(nil), at(2, Observed{JobSet: builders.JobSetOf(job, builders.HeldBack(true))}))
	started := metav1.NewTime(builders.At(3))
	expect(t, "let go", &started, at(3, Observed{JobSet: builders.JobSetOf(job)}))
	expect(t, "held back again", &started, at(4, Observed{JobSet: builders.JobSetOf(job, builders.HeldBack(true))}))
	expect(t, "let go again", &started, at(5, Observed{JobSet: builders.JobSetOf(job)}))
}

func TestLongMessageIsCutToWhatTheAPIAccepts(t *testing.T) {
	for name, message := range map[string]string{
		"of letters":                        strings.Repeat("x", 40000),
		"of characters of more than a byte": strings.Repeat("é", 40000),
	} {
		t.Run(name, func(t *testing.T) {
			next := Next(builders.TrainJob("a"), Observed{Blocked: &Cause{trainer.ReasonCreationFailed, message}}, builders.At(1))
			got := verdictOf(t, next).Message
			if len(got) > maxMessage || len(got) < maxMessage-utf8.UTFMax || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
				t.Errorf("message of %d bytes, valid UTF-8: %t, ends in %q", len(got), utf8.ValidString(got), got[len(got)-5:])
			}
		})
	}
}
