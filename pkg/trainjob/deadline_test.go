package trainjob

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/test/builders"
)

var never = lifetime.Verdict{Kind: lifetime.Never}

func waits(seconds int) lifetime.Verdict {
	return lifetime.Verdict{Kind: lifetime.Wait, Wait: time.Duration(seconds) * time.Second}
}

func late(seconds int) lifetime.Verdict {
	return lifetime.Verdict{Kind: lifetime.Expired, Late: time.Duration(seconds) * time.Second}
}

func TestDeadlineCountsFromCreation(t *testing.T) {
	job := builders.TrainJob("a", builders.Deadline(30), builders.Suspended(true))
	for _, from := range []DeadlineFrom{FromCreation, ""} {
		expect(t, "before", waits(20), Deadline(job, from, builders.At(10)))
		expect(t, "after", late(1), Deadline(job, from, builders.At(31)))
		expect(t, "resumed", late(1), Deadline(builders.TrainJob("a", builders.Deadline(30), suspendedCondition(metav1.ConditionFalse, 25)), from, builders.At(31)))
		expect(t, "without one", never, Deadline(builders.TrainJob("a"), from, builders.At(10)))
	}
}

// suspendedCondition is the condition Suspended, since a second of the test's time. One
// that is not True is of an earlier build, or of Trainer.
func suspendedCondition(status metav1.ConditionStatus, since int) builders.JobOption {
	return func(job *trainer.TrainJob) {
		builders.Condition(string(trainer.TrainJobSuspended), trainer.ReasonSuspended, builders.At(since))(job)
		meta.FindStatusCondition(job.Status.Conditions, string(trainer.TrainJobSuspended)).Status = status
	}
}

// resumedAt is what the status records of a resume.
func resumedAt(second int) builders.JobOption {
	return func(job *trainer.TrainJob) { job.Status.ResumeTime = &metav1.Time{Time: builders.At(second)} }
}

func generation(g int64) builders.JobOption {
	return func(job *trainer.TrainJob) { job.Generation = g }
}

func pending(since int) builders.JobOption {
	return builders.State(trainer.TrainJobPending, trainer.ReasonWaitingForPods, builders.At(since))
}

// The jobs were created at 0 and it is second 100; their deadline is 30 seconds.
func TestDeadlineCountsFromTheLastResume(t *testing.T) {
	suspended, resumed := metav1.ConditionTrue, metav1.ConditionFalse
	deleted := func(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: builders.At(90)} }
	cases := map[string]struct {
		opts []builders.JobOption
		want lifetime.Verdict
	}{
		"never suspended: from creation":                          {[]builders.JobOption{pending(1)}, late(70)},
		"never synced and never edited: from creation":            {nil, late(70)},
		"suspended: no deadline runs":                             {[]builders.JobOption{builders.Suspended(true), suspendedCondition(suspended, 5)}, never},
		"suspended, which nobody has noted yet":                   {[]builders.JobOption{builders.Suspended(true), pending(1), generation(2)}, never},
		"suspended again, which nobody has noted yet":             {[]builders.JobOption{builders.Suspended(true), suspendedCondition(resumed, 5), pending(5)}, never},
		"suspended from the start and never synced":               {[]builders.JobOption{builders.Suspended(true)}, never},
		"resumed, the condition still tells of an old suspension": {[]builders.JobOption{suspendedCondition(suspended, 5), generation(2)}, waits(30)},
		"resumed, a condition nobody can read":                    {[]builders.JobOption{suspendedCondition(metav1.ConditionUnknown, 5), generation(2)}, waits(30)},
		"resumed a moment ago":                                    {[]builders.JobOption{suspendedCondition(resumed, 100), pending(100)}, waits(30)},
		"resumed and time left":                                   {[]builders.JobOption{suspendedCondition(resumed, 80), pending(80)}, waits(10)},
		"resumed and just over":                                   {[]builders.JobOption{suspendedCondition(resumed, 70), pending(70)}, late(0)},
		"resumed long ago":                                        {[]builders.JobOption{suspendedCondition(resumed, 20), pending(20)}, late(50)},
		"resumed in the future, by a faster clock":                {[]builders.JobOption{suspendedCondition(resumed, 110), pending(110)}, waits(40)},
		"resumed before it was created, by a foreign hand":        {[]builders.JobOption{suspendedCondition(resumed, -50), pending(1)}, late(70)},
		"resumed before anybody saw it suspended":                 {[]builders.JobOption{generation(2)}, waits(30)},
		"deleted before anybody saw it, and not resumed":          {[]builders.JobOption{generation(2), deleted}, late(70)},
		"resumed and deleted before anybody saw it":               {[]builders.JobOption{generation(3), deleted}, waits(30)},
		"suspended and resumed again unseen, having run all along": {
			[]builders.JobOption{pending(1), generation(3)}, late(70),
		},
		"the status tells of a resume":                      {[]builders.JobOption{resumedAt(80), pending(80)}, waits(10)},
		"the status tells of a resume long ago":             {[]builders.JobOption{resumedAt(20), pending(20)}, late(50)},
		"resumed again, which nobody has noted yet":         {[]builders.JobOption{resumedAt(20), builders.State(trainer.TrainJobSuspended, "Suspended", builders.At(50))}, waits(30)},
		"resumed by an earlier build, brought over halfway": {[]builders.JobOption{resumedAt(20), suspendedCondition(resumed, 80), pending(80)}, waits(10)},
		"an endless deadline":                               {[]builders.JobOption{suspendedCondition(resumed, 20), builders.Deadline(math.MaxInt64)}, lifetime.Verdict{Kind: lifetime.Wait, Wait: lifetime.MaxWait}},
		"no deadline":                                       {[]builders.JobOption{suspendedCondition(resumed, 20), func(job *trainer.TrainJob) { job.Spec.ActiveDeadlineSeconds = nil }}, never},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", append([]builders.JobOption{builders.Deadline(30)}, tc.opts...)...)
			expect(t, "verdict", tc.want, Deadline(job, FromResume, builders.At(100)))
		})
	}
}

// A deadline that counts from a resume has nothing to go by but the status. Whatever the
// order of events, the first status after a resume makes the time last.
func TestTheStatusRecordsWhenAJobWasResumed(t *testing.T) {
	deadline := builders.Deadline(30)
	cases := map[string]*trainer.TrainJob{
		"seen suspended before":          builders.TrainJob("a", deadline, suspendedCondition(metav1.ConditionTrue, 5), generation(2)),
		"resumed before anybody saw it":  builders.TrainJob("a", deadline, generation(2)),
		"the condition cannot be read":   builders.TrainJob("a", deadline, suspendedCondition(metav1.ConditionUnknown, 5), generation(2)),
		"seen suspended, running before": builders.TrainJob("a", deadline, pending(1), suspendedCondition(metav1.ConditionTrue, 5), generation(3)),
	}
	for name, job := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, "before the first status", waits(30), Deadline(job, FromResume, builders.At(100)))
			job = step(job, 101, Observed{})
			recorded := metav1.NewTime(builders.At(101))
			expect(t, "resume time", &recorded, job.Status.ResumeTime)
			expect(t, "condition", (*metav1.Condition)(nil), meta.FindStatusCondition(job.Status.Conditions, string(trainer.TrainJobSuspended)))
			for _, second := range []int{105, 120} {
				job = step(job, second, Observed{JobSet: builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))})
			}
			expect(t, "later", waits(5), Deadline(job, FromResume, builders.At(126)))
			start, resume := DeadlineStart(job, FromResume, builders.At(126))
			expect(t, "start", builders.At(101), start.UTC())
			expect(t, "counts from a resume", true, resume)
		})
	}
}

func TestNoResumeIsRecordedThatWasNone(t *testing.T) {
	failure := &Cause{trainer.ReasonDeadlineExceeded, "too long"}
	cases := map[string]struct {
		job  *trainer.TrainJob
		seen Observed
	}{
		"a job that was never edited":             {builders.TrainJob("a"), Observed{}},
		"a job that was deleted at once":          {builders.TrainJob("a", generation(2), func(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: builders.At(1)} }), Observed{}},
		"a job that has been synced before":       {builders.TrainJob("a", generation(2), pending(1)), Observed{}},
		"a job that ends before it was ever seen": {builders.TrainJob("a", generation(2)), Observed{Failure: failure}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			next := Next(tc.job, tc.seen, builders.At(2))
			expect(t, "resume time", (*metav1.Time)(nil), next.ResumeTime)
		})
	}
}
