package trainjob

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// put brings a job into a state at a second after the epoch, by what is observed.
func put(job *trainer.TrainJob, state trainer.TrainJobState, second int) *trainer.TrainJob {
	job = job.DeepCopy()
	builders.Suspended(state == trainer.TrainJobSuspended)(job)
	var seen Observed
	switch state {
	case trainer.TrainJobRunning:
		seen.JobSet = builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))
	case trainer.TrainJobComplete:
		seen.JobSet = builders.JobSetOf(job, builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done"))
	case trainer.TrainJobFailed:
		seen.Failure = &Cause{trainer.ReasonDeadlineExceeded, "too long"}
	}
	return step(job, second, seen)
}

func TestTransition(t *testing.T) {
	const (
		pending   = trainer.TrainJobPending
		suspended = trainer.TrainJobSuspended
		running   = trainer.TrainJobRunning
		complete  = trainer.TrainJobComplete
		failed    = trainer.TrainJobFailed
	)
	// Each path starts with a new job and enters one state a second.
	cases := map[string]struct {
		path []trainer.TrainJobState
		want []string
	}{
		"new to Pending":   {[]trainer.TrainJobState{pending}, []string{"Pending=True WaitingForPods @1"}},
		"new to Suspended": {[]trainer.TrainJobState{suspended}, []string{"Suspended=True Suspended @1"}},
		"new to Running":   {[]trainer.TrainJobState{running}, []string{"Running=True PodsReady @1"}},
		"new to Complete":  {[]trainer.TrainJobState{complete}, []string{"Complete=True AllJobsCompleted @1"}},
		"new to Failed":    {[]trainer.TrainJobState{failed}, []string{"Failed=True DeadlineExceeded @1"}},

		"Pending stays":        {[]trainer.TrainJobState{pending, pending}, []string{"Pending=True WaitingForPods @1"}},
		"Pending to Suspended": {[]trainer.TrainJobState{pending, suspended}, []string{"Pending=False Suspended @2", "Suspended=True Suspended @2"}},
		"Pending to Running":   {[]trainer.TrainJobState{pending, running}, []string{"Pending=False Running @2", "Running=True PodsReady @2"}},
		"Pending to Complete":  {[]trainer.TrainJobState{pending, complete}, []string{"Pending=False Complete @2", "Complete=True AllJobsCompleted @2"}},
		"Pending to Failed":    {[]trainer.TrainJobState{pending, failed}, []string{"Pending=False Failed @2", "Failed=True DeadlineExceeded @2"}},

		"Suspended stays":       {[]trainer.TrainJobState{suspended, suspended}, []string{"Suspended=True Suspended @1"}},
		"Suspended to Pending":  {[]trainer.TrainJobState{suspended, pending}, []string{"Suspended=False Resumed @2", "Pending=True WaitingForPods @2"}},
		"Suspended to Running":  {[]trainer.TrainJobState{suspended, running}, []string{"Suspended=False Resumed @2", "Running=True PodsReady @2"}},
		"Suspended to Complete": {[]trainer.TrainJobState{suspended, complete}, []string{"Suspended=False Complete @2", "Complete=True AllJobsCompleted @2"}},
		"Suspended to Failed":   {[]trainer.TrainJobState{suspended, failed}, []string{"Suspended=False Failed @2", "Failed=True DeadlineExceeded @2"}},

		"Running stays":        {[]trainer.TrainJobState{running, running}, []string{"Running=True PodsReady @1"}},
		"Running to Pending":   {[]trainer.TrainJobState{running, pending}, []string{"Running=False Pending @2", "Pending=True WaitingForPods @2"}},
		"Running to Suspended": {[]trainer.TrainJobState{running, suspended}, []string{"Running=False Suspended @2", "Suspended=True Suspended @2"}},
		"Running to Complete":  {[]trainer.TrainJobState{running, complete}, []string{"Running=False Complete @2", "Complete=True AllJobsCompleted @2"}},
		"Running to Failed":    {[]trainer.TrainJobState{running, failed}, []string{"Running=False Failed @2", "Failed=True DeadlineExceeded @2"}},

		"Complete is never left": {[]trainer.TrainJobState{complete, pending, suspended, running, failed}, []string{"Complete=True AllJobsCompleted @1"}},
		"Failed is never left":   {[]trainer.TrainJobState{failed, pending, suspended, running, complete}, []string{"Failed=True DeadlineExceeded @1"}},

		"a condition that is False already keeps its reason and time": {
			[]trainer.TrainJobState{suspended, pending, running, complete},
			[]string{
				"Suspended=False Resumed @2", "Pending=False Running @3", "Running=False Complete @4",
				"Complete=True AllJobsCompleted @4",
			},
		},
		"a state entered again has the time of the last entry": {
			[]trainer.TrainJobState{running, suspended, pending, running},
			[]string{"Running=True PodsReady @4", "Suspended=False Resumed @3", "Pending=False Running @4"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			for i, state := range tc.path {
				job = put(job, state, i+1)
				verdictOf(t, &job.Status)
			}
			sameSet(t, tc.want, lines(job.Status.Conditions))
		})
	}
}

// sameSet compares without regard to the order: of a new pair of conditions, the one
// that was there before comes first, which is not what these tests are about.
func sameSet(t *testing.T, want, got []string) {
	t.Helper()
	asSet := func(list []string) map[string]bool {
		set := map[string]bool{}
		for _, line := range list {
			set[line] = true
		}
		return set
	}
	expect(t, "conditions", asSet(want), asSet(got))
}

func TestReasonAndMessageChangeWithoutATransition(t *testing.T) {
	job := step(builders.TrainJob("a"), 1, Observed{Blocked: &Cause{trainer.ReasonWaitingForRuntime, "no runtime"}})
	job.Generation = 2
	job = step(job, 2, Observed{Blocked: &Cause{trainer.ReasonRuntimeInvalid, "no trainer"}})
	expect(t, "conditions", []metav1.Condition{{
		Type: "Pending", Status: metav1.ConditionTrue, Reason: trainer.ReasonRuntimeInvalid, Message: "no trainer",
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(builders.At(1)),
	}}, job.Status.Conditions)
}

func TestMessageOfAStateThatWasLeftSaysWhy(t *testing.T) {
	cases := map[string]struct {
		from, to trainer.TrainJobState
		want     string
	}{
		"resumed":               {trainer.TrainJobSuspended, trainer.TrainJobPending, "spec.suspend is false"},
		"ended while suspended": {trainer.TrainJobSuspended, trainer.TrainJobFailed, "the job is Failed"},
		"started":               {trainer.TrainJobPending, trainer.TrainJobRunning, "the job is Running"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := put(put(builders.TrainJob("a"), tc.from, 1), tc.to, 2)
			expect(t, "message", tc.want, job.Status.Conditions[0].Message)
		})
	}
}

func TestCompletionTimeIsThatOfTheTerminalCondition(t *testing.T) {
	for _, end := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		t.Run(string(end), func(t *testing.T) {
			job := put(builders.TrainJob("a"), trainer.TrainJobRunning, 1)
			expect(t, "while running", (*metav1.Time)(nil), job.Status.CompletionTime)
			ended := metav1.NewTime(builders.At(2))
			job = put(job, end, 2)
			expect(t, "at the end", &ended, job.Status.CompletionTime)
			job = put(job, trainer.TrainJobRunning, 3)
			expect(t, "afterwards", &ended, job.Status.CompletionTime)
		})
	}
}

func TestFinishedJobOnlyMirrors(t *testing.T) {
	for _, end := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		t.Run(string(end), func(t *testing.T) {
			job := put(put(builders.TrainJob("a"), trainer.TrainJobRunning, 1), end, 2)
			builders.Suspended(true)(job)
			job.Generation++
			other := Observed{
				JobSet:   builders.JobSetOf(job, builders.HeldBack(false), builders.Jobs(builders.Ready("node"))),
				Failure:  &Cause{trainer.ReasonDeadlineExceeded, "too long"},
				Blocked:  &Cause{trainer.ReasonSnapshotInvalid, "changed"},
				Snapshot: &trainer.RuntimeSnapshotReference{Name: "another"},
				Nodes:    new(int32),
			}
			want := job.Status.DeepCopy()
			want.JobsStatus = []trainer.JobStatus{{Name: "node", Active: 1, Ready: 1}}
			expect(t, "status with a running JobSet", want, Next(job, other, builders.At(3)))

			want.JobsStatus = []trainer.JobStatus{{Name: "node"}}
			expect(t, "status without a JobSet", want, Next(job, Observed{}, builders.At(4)))
		})
	}
}

func TestJobThatFinishedUnderAnotherControllerIsLeftAsItIs(t *testing.T) {
	for _, end := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		t.Run(string(end), func(t *testing.T) {
			job := builders.TrainJob("a", builders.Condition("Suspended", "Other", builders.At(1)), builders.Condition(string(end), "Other", builders.At(2)),
				func(job *trainer.TrainJob) {
					job.Status.State = ""
					job.Status.JobsStatus = []trainer.JobStatus{{Name: "node", Succeeded: 1}}
				})
			want := job.Status.DeepCopy()
			expect(t, "status without a JobSet", want, Next(job, Observed{}, builders.At(9)))
			running := Observed{JobSet: builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))}
			expect(t, "status with a JobSet that says something else", want, Next(job, running, builders.At(9)))
		})
	}
}

func TestStatesOfOtherWriters(t *testing.T) {
	terminal := func(conditionType string, second int) builders.JobOption {
		return builders.Condition(conditionType, "Other", builders.At(second))
	}
	cases := map[string]struct {
		job       *trainer.TrainJob
		wantState trainer.TrainJobState
		want      []string
	}{
		"a finished job that was ours and has lost its status.state": {
			builders.TrainJob("a", terminal("Complete", 1), func(job *trainer.TrainJob) {
				job.Status.State, job.Status.Lifecycle = "", &trainer.LifecycleLimits{}
			}),
			trainer.TrainJobComplete, []string{"Complete=True Other @1"},
		},
		"two terminal conditions: the first that was set counts": {
			builders.TrainJob("a", terminal("Complete", 2), terminal("Failed", 1)),
			trainer.TrainJobFailed, []string{"Complete=True Other @2", "Failed=True Other @1"},
		},
		"two terminal conditions the other way round": {
			builders.TrainJob("a", terminal("Complete", 1), terminal("Failed", 2)),
			trainer.TrainJobComplete, []string{"Complete=True Other @1", "Failed=True Other @2"},
		},
		"two terminal conditions set at once: completion wins": {
			builders.TrainJob("a", terminal("Failed", 1), terminal("Complete", 1)),
			trainer.TrainJobComplete, []string{"Failed=True Other @1", "Complete=True Other @1"},
		},
		"a terminal condition beside a running one is not cleaned up": {
			builders.TrainJob("a", terminal("Running", 1), terminal("Failed", 2)),
			trainer.TrainJobFailed, []string{"Running=True Other @1", "Failed=True Other @2"},
		},
		"two states that are not terminal are cleaned up": {
			builders.TrainJob("a", terminal("Running", 1), terminal("Suspended", 2)),
			trainer.TrainJobPending,
			[]string{"Running=False Pending @9", "Suspended=False Resumed @9", "Pending=True WaitingForPods @9"},
		},
		"a state that is Unknown is cleaned up": {
			builders.TrainJob("a", terminal("Running", 1), func(job *trainer.TrainJob) {
				job.Status.Conditions[0].Status = metav1.ConditionUnknown
			}),
			trainer.TrainJobPending, []string{"Running=False Pending @9", "Pending=True WaitingForPods @9"},
		},
		"a terminal condition that is False ends nothing": {
			builders.TrainJob("a", terminal("Failed", 1), func(job *trainer.TrainJob) {
				job.Status.Conditions[0].Status = metav1.ConditionFalse
			}),
			trainer.TrainJobPending, []string{"Failed=False Other @1", "Pending=True WaitingForPods @9"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.job, Observed{}, builders.At(9))
			expect(t, "state", tc.wantState, got.State)
			sameSet(t, tc.want, lines(got.Conditions))
		})
	}
}
