package trainjob

import (
	"math/rand"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// slurm is a job whose runtime has a builder of its own.
func slurm(opts ...builders.JobOption) *trainer.TrainJob {
	return builders.TrainJob("a", append([]builders.JobOption{builders.OpaqueRuntime("slurm.example.com", "SlurmRuntime", "big")}, opts...)...)
}

func TestUnderstoodKindsAreNamedInOrder(t *testing.T) {
	const own = "ClusterTrainingRuntime and TrainingRuntime of trainer.kubeflow.org"
	opaque := sets.New(schema.GroupKind{Group: "slurm.example.com", Kind: "SlurmRuntime"}, schema.GroupKind{Group: "example.com", Kind: "Recipe"})
	for want, kinds := range map[string]sets.Set[schema.GroupKind]{
		own: nil,
		own + ", and for builders of their own Recipe.example.com, SlurmRuntime.slurm.example.com": opaque,
	} {
		if got := UnderstoodKinds(kinds); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRuntimeKind(t *testing.T) {
	cases := map[string]struct {
		job      *trainer.TrainJob
		want     schema.GroupKind
		external bool
	}{
		"of the cluster":   {builders.TrainJob("a"), trainer.Kind("ClusterTrainingRuntime"), false},
		"of the namespace": {builders.TrainJob("a", builders.Runtime("TrainingRuntime", "x")), trainer.Kind("TrainingRuntime"), false},
		"without defaults": {builders.TrainJob("a", func(job *trainer.TrainJob) {
			job.Spec.RuntimeRef = trainer.RuntimeRef{Name: "x"}
		}), trainer.Kind("ClusterTrainingRuntime"), false},
		"a kind of our group that is not ours": {builders.TrainJob("a", builders.Runtime("Foo", "x")), trainer.Kind("Foo"), true},
		"our kind in small letters":            {builders.TrainJob("a", builders.Runtime("trainingruntime", "x")), trainer.Kind("trainingruntime"), true},
		"our kind's name in another group": {
			builders.TrainJob("a", builders.OpaqueRuntime("example.com", "TrainingRuntime", "x")),
			schema.GroupKind{Group: "example.com", Kind: "TrainingRuntime"}, true,
		},
		"of a builder": {slurm(), schema.GroupKind{Group: "slurm.example.com", Kind: "SlurmRuntime"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, "kind", tc.want, RuntimeKind(tc.job))
			expect(t, "external", tc.external, External(tc.job))
		})
	}
}

// by is a state that a builder has written.
func by(state trainer.TrainJobState, reason string, second int) builders.JobOption {
	return builders.State(state, reason, builders.At(second))
}

func started(second int) builders.JobOption {
	return func(job *trainer.TrainJob) { job.Status.StartTime = &metav1.Time{Time: builders.At(second)} }
}

func TestNextOfAJobWithABuilder(t *testing.T) {
	const (
		pending   = trainer.TrainJobPending
		suspended = trainer.TrainJobSuspended
		running   = trainer.TrainJobRunning
		complete  = trainer.TrainJobComplete
	)
	missing := Observed{Blocked: &Cause{trainer.ReasonWaitingForRuntime, "no runtime"}}
	late := Observed{Failure: &Cause{trainer.ReasonDeadlineExceeded, "too long"}}
	ref := &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", UID: "1"}
	taken := Observed{Snapshot: ref}
	cases := map[string]struct {
		job  *trainer.TrainJob
		seen Observed
		want []string // conditions after second 9
		// startTime is set by now
		started bool
	}{
		"it waits for its runtime":                     {slurm(), missing, []string{"Pending WaitingForRuntime @9"}, false},
		"suspended it says so meanwhile":               {slurm(builders.Suspended(true)), missing, []string{"Suspended Suspended @9", "Suspended=True Suspended @9"}, false},
		"with its snapshot it is handed over":          {slurm(), taken, []string{"Pending ExternalRuntime @9"}, true},
		"when it has waited, too":                      {slurm(by(pending, "WaitingForRuntime", 1)), taken, []string{"Pending ExternalRuntime @1"}, true},
		"not as long as it is suspended":               {slurm(builders.Suspended(true)), taken, []string{"Suspended Suspended @9", "Suspended=True Suspended @9"}, false},
		"but when it is resumed":                       {slurm(by(suspended, "Suspended", 1)), Observed{}, []string{"resumed @9", "Pending ExternalRuntime @9"}, true},
		"afterwards nothing is written":                {slurm(by(pending, "ExternalRuntime", 1), started(1)), Observed{}, []string{"Pending ExternalRuntime @1"}, true},
		"nor when it is suspended":                     {slurm(by(pending, "ExternalRuntime", 1), started(1), builders.Suspended(true)), Observed{}, []string{"Pending ExternalRuntime @1"}, true},
		"nor over what the builder has written":        {slurm(by(running, "Started", 2), started(1)), taken, []string{"Running Started @2"}, true},
		"a builder's Suspended stays after the resume": {slurm(by(suspended, "Suspended", 2), started(1)), Observed{}, []string{"Suspended Suspended @2", "Suspended=True Suspended @2"}, true},
		"a problem with the snapshot is no state then": {slurm(by(running, "Started", 2), started(1)), missing, []string{"Running Started @2"}, true},
		"a builder that was quicker than we keeps it":  {slurm(by(running, "Started", 2)), taken, []string{"Running Started @2"}, true},
		"also one that is Pending for its own reasons": {slurm(by(pending, "Queued", 2)), taken, []string{"Pending Queued @2"}, true},
		"also one that holds it back":                  {slurm(by(suspended, "HeldBack", 2)), taken, []string{"Suspended HeldBack @2", "Suspended=True HeldBack @2"}, true},
		"its end stays":                                {slurm(by(complete, "JobDone", 2), started(1)), late, []string{"Complete JobDone @2", "Complete=True JobDone @2"}, true},
		"the deadline ends it before it began":         {slurm(), late, []string{"Failed DeadlineExceeded @9", "Failed=True DeadlineExceeded @9"}, false},
		"the deadline ends it while it runs":           {slurm(by(running, "Started", 2), started(1)), late, []string{"Failed DeadlineExceeded @9", "Failed=True DeadlineExceeded @9"}, true},
		"the deadline ends it while it is suspended":   {slurm(builders.Suspended(true), by(suspended, "Suspended", 2)), late, []string{"Failed DeadlineExceeded @9", "Failed=True DeadlineExceeded @9"}, false},
		"a kind that nobody knows": {
			slurm(), Observed{Failure: &Cause{trainer.ReasonTrainingRuntimeNotSupported, "Foo"}}, []string{"Failed TrainingRuntimeNotSupported @9", "Failed=True TrainingRuntimeNotSupported @9"}, false,
		},
		"another's conditions do not matter": {
			slurm(builders.Condition("Healthy", "Fine", builders.At(1))), taken, []string{"Healthy=True Fine @1", "Pending ExternalRuntime @9"}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.job.DeepCopy()
			next := step(tc.job, 9, tc.seen)
			expect(t, "the job given to Next", before, tc.job)
			verdictOf(t, &next.Status)
			sameSet(t, tc.want, lines(&next.Status))
			expect(t, "started", tc.started, next.Status.StartTime != nil)
			if tc.seen.Snapshot != nil && !Finished(tc.job) {
				expect(t, "snapshot", ref, next.Status.RuntimeSnapshot)
			}
			expect(t, "change an hour later", Same, Compare(next, Next(next, tc.seen, builders.At(3609))))
		})
	}
}

func TestTheJobSetAndTheCountersOfAnExternalJobAreItsBuilders(t *testing.T) {
	counters := []trainer.JobStatus{{Name: "batch", Active: 3, Ready: 2}}
	job := slurm(by(trainer.TrainJobRunning, "Started", 2), started(1), func(job *trainer.TrainJob) { job.Status.JobsStatus = counters })
	js := builders.JobSetOf(job, builders.Jobs(builders.Ready("node")), builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done"))
	for name, seen := range map[string]Observed{
		"while it runs": {JobSet: js}, "at its deadline": {JobSet: js, Failure: &Cause{trainer.ReasonDeadlineExceeded, "too long"}}, "without a JobSet": {},
	} {
		t.Run(name, func(t *testing.T) {
			next := Next(job, seen, builders.At(9))
			expect(t, "counters", counters, next.JobsStatus)
			if seen.Failure == nil {
				expect(t, "state", trainer.TrainJobRunning, next.State)
			} else {
				expect(t, "state", trainer.TrainJobFailed, next.State)
			}
		})
	}
}

// TestABuildersWordIsNeverTakenBack lets a builder and a user write at random between our
// syncs, and checks that we write ExternalRuntime once at most and, from then on, or once
// the builder has said something, no state but the deadline's.
func TestABuildersWordIsNeverTakenBack(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		job := slurm(builders.Suspended(r.Intn(2) == 0))
		handedOver := 0
		for second := 1; second < 60; second++ {
			seen := Observed{}
			switch r.Intn(40) {
			case 0:
				seen.Failure = &Cause{trainer.ReasonDeadlineExceeded, "too long"}
			case 1, 2, 3, 4, 5, 6:
				seen.Blocked = &Cause{trainer.ReasonWaitingForRuntime, "no runtime"}
			case 7, 8, 9:
				seen.Snapshot = &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot"}
			}
			next := step(job, second, seen)
			verdictOf(t, &next.Status)
			if HandedOver(job) && (seen.Failure == nil || Finished(job)) && !slices.Equal(lines(&job.Status), lines(&next.Status)) {
				t.Fatalf("seed %d: the builder's state was changed from %q to %q", seed, lines(&job.Status), lines(&next.Status))
			}
			if next.Status.State == trainer.TrainJobPending && next.Status.Reason == trainer.ReasonExternalRuntime && job.Status.StartTime == nil {
				handedOver++
			}
			job = next
			builderOrUserWrites(r, job, second)
		}
		if handedOver > 1 {
			t.Fatalf("seed %d: the job was handed over %d times", seed, handedOver)
		}
	}
}

func builderOrUserWrites(r *rand.Rand, job *trainer.TrainJob, second int) {
	if r.Intn(4) == 0 {
		builders.Suspended(r.Intn(2) == 0)(job)
	}
	// A builder begins when it is told to, or as soon as it sees the snapshot.
	if begun := job.Status.StartTime != nil || job.Status.RuntimeSnapshot != nil; !begun || Finished(job) || r.Intn(3) > 0 {
		return
	}
	cause := Cause{"ByBuilder", "says the builder"}
	states := []trainer.TrainJobState{trainer.TrainJobPending, trainer.TrainJobSuspended, trainer.TrainJobRunning}
	state := states[r.Intn(len(states))]
	if r.Intn(20) == 0 {
		state = trainer.TrainJobComplete
	}
	if state == trainer.TrainJobSuspended && job.Status.StartTime != nil {
		cause.Reason = trainer.ReasonSuspended // as we would say it
	}
	enter(&job.Status, state, cause, metav1.NewTime(builders.At(second)))
}
