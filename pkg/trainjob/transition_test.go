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
		"new to Pending":   {[]trainer.TrainJobState{pending}, []string{"Pending WaitingForPods @1"}},
		"new to Suspended": {[]trainer.TrainJobState{suspended}, []string{"Suspended Suspended @1", "Suspended=True Suspended @1"}},
		"new to Running":   {[]trainer.TrainJobState{running}, []string{"Running PodsReady @1"}},
		"new to Complete":  {[]trainer.TrainJobState{complete}, []string{"Complete AllJobsCompleted @1", "Complete=True AllJobsCompleted @1"}},
		"new to Failed":    {[]trainer.TrainJobState{failed}, []string{"Failed DeadlineExceeded @1", "Failed=True DeadlineExceeded @1"}},

		"Pending stays":        {[]trainer.TrainJobState{pending, pending}, []string{"Pending WaitingForPods @1"}},
		"Pending to Suspended": {[]trainer.TrainJobState{pending, suspended}, []string{"Suspended Suspended @2", "Suspended=True Suspended @2"}},
		"Pending to Running":   {[]trainer.TrainJobState{pending, running}, []string{"Running PodsReady @2"}},
		"Pending to Complete":  {[]trainer.TrainJobState{pending, complete}, []string{"Complete AllJobsCompleted @2", "Complete=True AllJobsCompleted @2"}},
		"Pending to Failed":    {[]trainer.TrainJobState{pending, failed}, []string{"Failed DeadlineExceeded @2", "Failed=True DeadlineExceeded @2"}},

		"Suspended stays":       {[]trainer.TrainJobState{suspended, suspended}, []string{"Suspended Suspended @1", "Suspended=True Suspended @1"}},
		"Suspended to Pending":  {[]trainer.TrainJobState{suspended, pending}, []string{"resumed @2", "Pending WaitingForPods @2"}},
		"Suspended to Running":  {[]trainer.TrainJobState{suspended, running}, []string{"resumed @2", "Running PodsReady @2"}},
		"Suspended to Complete": {[]trainer.TrainJobState{suspended, complete}, []string{"Complete AllJobsCompleted @2", "Complete=True AllJobsCompleted @2"}},
		"Suspended to Failed":   {[]trainer.TrainJobState{suspended, failed}, []string{"Failed DeadlineExceeded @2", "Failed=True DeadlineExceeded @2"}},

		"Running stays":        {[]trainer.TrainJobState{running, running}, []string{"Running PodsReady @1"}},
		"Running to Pending":   {[]trainer.TrainJobState{running, pending}, []string{"Pending WaitingForPods @2"}},
		"Running to Suspended": {[]trainer.TrainJobState{running, suspended}, []string{"Suspended Suspended @2", "Suspended=True Suspended @2"}},
		"Running to Complete":  {[]trainer.TrainJobState{running, complete}, []string{"Complete AllJobsCompleted @2", "Complete=True AllJobsCompleted @2"}},
		"Running to Failed":    {[]trainer.TrainJobState{running, failed}, []string{"Failed DeadlineExceeded @2", "Failed=True DeadlineExceeded @2"}},

		"Complete is never left": {[]trainer.TrainJobState{complete, pending, suspended, running, failed}, []string{"Complete AllJobsCompleted @1", "Complete=True AllJobsCompleted @1"}},
		"Failed is never left":   {[]trainer.TrainJobState{failed, pending, suspended, running, complete}, []string{"Failed DeadlineExceeded @1", "Failed=True DeadlineExceeded @1"}},

		"a condition that is False already keeps its reason and time": {
			[]trainer.TrainJobState{suspended, pending, running, complete},
			[]string{"resumed @2", "Complete AllJobsCompleted @4", "Complete=True AllJobsCompleted @4"},
		},
		"a state entered again has the time of the last entry": {
			[]trainer.TrainJobState{running, suspended, pending, running},
			[]string{"Running PodsReady @4", "resumed @3"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			for i, state := range tc.path {
				job = put(job, state, i+1)
				verdictOf(t, &job.Status)
			}
			sameSet(t, tc.want, lines(&job.Status))
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
	job = step(job, 2, Observed{Blocked: &Cause{trainer.ReasonRuntimeInvalid, "no trainer"}})
	expect(t, "verdict", verdict{trainer.TrainJobPending, trainer.ReasonRuntimeInvalid, "no trainer"}, verdictOf(t, &job.Status))
	expect(t, "state", []string{"Pending RuntimeInvalid @1"}, lines(&job.Status))

	builders.Suspended(true)(job)
	job = step(job, 3, Observed{})
	job = step(job, 4, Observed{Blocked: &Cause{trainer.ReasonRuntimeInvalid, "no trainer"}})
	const message = "spec.suspend is true; when resumed the job will be Pending for RuntimeInvalid: no trainer"
	expect(t, "verdict", verdict{trainer.TrainJobSuspended, trainer.ReasonSuspended, message}, verdictOf(t, &job.Status))
	expect(t, "state", []string{"Suspended Suspended @3", "Suspended=True Suspended @3"}, lines(&job.Status))
}

// Every time that a job is held back is a transition of its own, for those who count from
// the condition.
func TestASecondSuspensionHasATimeOfItsOwn(t *testing.T) {
	job := builders.TrainJob("a")
	for second, state := range []trainer.TrainJobState{trainer.TrainJobSuspended, trainer.TrainJobPending, trainer.TrainJobRunning, trainer.TrainJobSuspended} {
		job = put(job, state, second+1)
	}
	expect(t, "state", []string{"Suspended Suspended @4", "Suspended=True Suspended @4", "resumed @2"}, lines(&job.Status))
	job = put(job, trainer.TrainJobRunning, 5)
	expect(t, "state", []string{"Running PodsReady @5", "resumed @5"}, lines(&job.Status))
}

func TestTheFirstTimeAJobRunsIsKept(t *testing.T) {
	job := put(builders.TrainJob("a"), trainer.TrainJobPending, 1)
	expect(t, "before", (*metav1.Time)(nil), job.Status.FirstRunningTime)
	first := metav1.NewTime(builders.At(2))
	for second, state := range []trainer.TrainJobState{trainer.TrainJobRunning, trainer.TrainJobPending, trainer.TrainJobRunning, trainer.TrainJobSuspended, trainer.TrainJobRunning, trainer.TrainJobComplete} {
		job = put(job, state, second+2)
		expect(t, "from then on", &first, job.Status.FirstRunningTime)
	}
}

// Earlier builds had a condition for each state, with an observedGeneration, and Trainer
// leaves Suspended False.
func TestConditionsOfEarlierBuildsAreBroughtOver(t *testing.T) {
	legacy := func(conditionType string, status metav1.ConditionStatus, second int) metav1.Condition {
		return metav1.Condition{
			Type: conditionType, Status: status, Reason: "Before", Message: "before", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(builders.At(second)),
		}
	}
	theirs := legacy("example.com/Theirs", metav1.ConditionTrue, 1)
	resumed := legacy("Suspended", metav1.ConditionFalse, 4)
	cases := map[string]struct {
		state trainer.TrainJobState
		have  []metav1.Condition
		want  []string
	}{
		"a job that runs": {
			trainer.TrainJobRunning, []metav1.Condition{legacy("Pending", metav1.ConditionFalse, 2), theirs, legacy("Running", metav1.ConditionTrue, 2)},
			[]string{"Running PodsReady @9", "example.com/Theirs=True Before @1"},
		},
		"a job that was resumed": {
			trainer.TrainJobRunning, []metav1.Condition{resumed, legacy("Running", metav1.ConditionTrue, 5)},
			[]string{"Running PodsReady @9", "resumed @4"},
		},
		"a job that waits after its resume": {
			trainer.TrainJobPending, []metav1.Condition{resumed, legacy("Pending", metav1.ConditionTrue, 5)},
			[]string{"Pending WaitingForPods @9", "resumed @4"},
		},
		"a job that is suspended": {
			trainer.TrainJobSuspended, []metav1.Condition{legacy("Suspended", metav1.ConditionTrue, 5)},
			[]string{"Suspended Suspended @9", "Suspended=True Suspended @5"},
		},
		"a job that has been suspended again since": {
			trainer.TrainJobSuspended, []metav1.Condition{resumed},
			[]string{"Suspended Suspended @9", "Suspended=True Suspended @9", "resumed @4"},
		},
		"a job that ends": {
			trainer.TrainJobComplete, []metav1.Condition{resumed, legacy("Running", metav1.ConditionTrue, 5)},
			[]string{"Complete AllJobsCompleted @9", "Complete=True AllJobsCompleted @9"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := put(builders.TrainJob("a", func(job *trainer.TrainJob) { job.Status.Conditions = tc.have }), tc.state, 9)
			sameSet(t, tc.want, lines(&job.Status))
			verdictOf(t, &job.Status)
		})
	}
	t.Run("a job that has ended is left as it is", func(t *testing.T) {
		job := builders.TrainJob("a", func(job *trainer.TrainJob) {
			job.Status.State, job.Status.Lifecycle = trainer.TrainJobComplete, &trainer.LifecycleLimits{}
			job.Status.Conditions = []metav1.Condition{legacy("Running", metav1.ConditionFalse, 3), legacy("Complete", metav1.ConditionTrue, 3)}
		})
		expect(t, "status", &job.Status, Next(job, Observed{}, builders.At(9)))
	})
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
			job := builders.TrainJob("a", builders.State("Suspended", "Other", builders.At(1)), builders.State(end, "Other", builders.At(2)),
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
	ours := func(job *trainer.TrainJob) { job.Status.Lifecycle = &trainer.LifecycleLimits{} }
	cases := map[string]struct {
		job       *trainer.TrainJob
		wantState trainer.TrainJobState
		want      []string
	}{
		"a finished job that was ours and has lost its status.state": {
			builders.TrainJob("a", terminal("Complete", 1), func(job *trainer.TrainJob) { job.Status.Lifecycle = &trainer.LifecycleLimits{} }),
			trainer.TrainJobComplete, []string{"Complete=True Other @1"},
		},
		"two terminal conditions: the first that was set counts": {
			builders.TrainJob("a", ours, terminal("Complete", 2), terminal("Failed", 1)),
			trainer.TrainJobFailed, []string{"Complete=True Other @2", "Failed=True Other @1"},
		},
		"two terminal conditions the other way round": {
			builders.TrainJob("a", ours, terminal("Complete", 1), terminal("Failed", 2)),
			trainer.TrainJobComplete, []string{"Complete=True Other @1", "Failed=True Other @2"},
		},
		"two terminal conditions set at once: completion wins": {
			builders.TrainJob("a", ours, terminal("Failed", 1), terminal("Complete", 1)),
			trainer.TrainJobComplete, []string{"Failed=True Other @1", "Complete=True Other @1"},
		},
		"a terminal condition beside a running one is not cleaned up": {
			builders.TrainJob("a", ours, terminal("Running", 1), terminal("Failed", 2)),
			trainer.TrainJobFailed, []string{"Running=True Other @1", "Failed=True Other @2"},
		},
		"two states that are not terminal are cleaned up": {
			builders.TrainJob("a", ours, terminal("Running", 1), terminal("Suspended", 2)),
			trainer.TrainJobPending, []string{"Pending WaitingForPods @9", "resumed @9"},
		},
		"a state that is Unknown is cleaned up": {
			builders.TrainJob("a", ours, terminal("Running", 1), func(job *trainer.TrainJob) {
				job.Status.Conditions[0].Status = metav1.ConditionUnknown
			}),
			trainer.TrainJobPending, []string{"Pending WaitingForPods @9"},
		},
		"a terminal condition that is False ends nothing, and goes": {
			builders.TrainJob("a", ours, terminal("Failed", 1), func(job *trainer.TrainJob) {
				job.Status.Conditions[0].Status = metav1.ConditionFalse
			}),
			trainer.TrainJobPending, []string{"Pending WaitingForPods @9"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.job, Observed{}, builders.At(9))
			expect(t, "state", tc.wantState, got.State)
			sameSet(t, tc.want, lines(got))
		})
	}
}
