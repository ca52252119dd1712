package lifecycle

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetfake "sigs.k8s.io/jobset/client-go/clientset/versioned/fake"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// fixture is a controller between caches that hold what a test puts in, and an API
// server that may know better. It is 60 seconds after the epoch.
type fixture struct {
	t          *testing.T
	controller *Controller
	jobs       cache.Indexer
	clock      *clocktesting.FakeClock
	client     *trainerfake.Clientset
	registry   componentmetrics.KubeRegistry
	// next is the job of a combination that the API server is yet to learn of.
	next    *trainer.TrainJob
	events  *record.FakeRecorder
	jobSets *jobsetfake.Clientset
}

var theJob = cache.ObjectName{Namespace: builders.Namespace, Name: "a"}

// newFixture has `cached` in its cache, and `live`, if there is one, on the API server.
func newFixture(t *testing.T, cached, live *trainer.TrainJob) *fixture {
	t.Helper()
	return newFixtureFrom(t, trainjob.FromCreation, cached, live)
}

// newFixtureFrom is newFixture with deadlines that count from a moment of choice.
func newFixtureFrom(t *testing.T, from trainjob.DeadlineFrom, cached, live *trainer.TrainJob) *fixture {
	t.Helper()
	f := &fixture{
		t: t, client: fakes.Trainer(), events: record.NewFakeRecorder(10),
		clock: clocktesting.NewFakeClock(builders.At(60)), registry: componentmetrics.NewKubeRegistry(),
		jobSets: jobsetfake.NewSimpleClientset(),
	}
	fakes.CheckPreconditions(f.client)
	cached, live = versioned(cached, live)
	if live != nil {
		if err := f.client.Tracker().Add(live.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	jobs := trainerinformers.NewSharedInformerFactory(f.client, 0).Trainer().V1alpha1().TrainJobs()
	measured := metrics.New()
	err := measured.Register(f.registry.Register, f.registry.CustomRegister)
	if err != nil {
		t.Fatal(err)
	}
	f.controller, err = New(Config{
		Client: f.client.TrainerV1alpha1(), Jobs: jobs, JobSets: f.jobSets.JobsetV1alpha2(),
		Recorder: f.events, Clock: f.clock, Metrics: measured, DeadlineFrom: from,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.jobs = jobs.Informer().GetIndexer()
	if cached != nil {
		if err := f.jobs.Add(cached); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// versioned gives two states of a job the resourceVersions that an API server would.
func versioned(cached, live *trainer.TrainJob) (*trainer.TrainJob, *trainer.TrainJob) {
	if cached == nil || live == nil || cached.ResourceVersion != "" {
		return cached, live
	}
	same := equality.Semantic.DeepEqual(cached, live)
	cached, live = cached.DeepCopy(), live.DeepCopy()
	cached.ResourceVersion, live.ResourceVersion = "1", "1"
	if !same {
		live.ResourceVersion = "2"
	}
	return cached, live
}

// writes are the verbs of everything that was written.
func (f *fixture) writes() []string {
	var verbs []string
	for _, a := range f.client.Actions() {
		if a.GetVerb() != "get" {
			verbs = append(verbs, strings.TrimSuffix(a.GetVerb()+" "+a.GetSubresource(), " "))
		}
	}
	return verbs
}

func (f *fixture) wantWrites(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.writes()); diff != "" {
		f.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// lateness is how often a timer's lateness was measured.
func (f *fixture) lateness(timer metrics.Timer) uint64 {
	f.t.Helper()
	h, err := testutil.GetHistogramVecFromGatherer(f.registry, "trainjob_controller_"+string(timer)+"_lateness_seconds", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return h.GetAggregatedSampleCount()
}

func beingDeleted(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: builders.At(50)} }

// recorded sets the limits found at the first sync; nil means there were none.
func recorded(ttl *int32, deadline *int64) builders.JobOption {
	return func(job *trainer.TrainJob) {
		job.Status.Lifecycle = &trainer.LifecycleLimits{TTLSecondsAfterFinished: ttl, ActiveDeadlineSeconds: deadline}
	}
}

func slurm(job *trainer.TrainJob) {
	builders.OpaqueRuntime("slurm.example.com", "SlurmRuntime", "big")(job)
}

func complete(at int) builders.JobOption {
	return builders.State(trainer.TrainJobComplete, "AllJobsCompleted", builders.At(at))
}

func TestDeadlineWaitsOrDoesNothing(t *testing.T) {
	thirty := int64(30)
	cases := map[string]struct {
		cached, live *trainer.TrainJob
		wait         time.Duration
	}{
		"a job that is gone":                     {nil, nil, 0},
		"a job without a deadline":               {builders.TrainJob("a"), nil, 0},
		"a job that has finished":                {builders.TrainJob("a", builders.Deadline(1), complete(50)), nil, 0},
		"a job of another controller":            {builders.TrainJob("a", builders.Deadline(1), builders.ManagedBy(trainer.ManagedByMultiKueue)), nil, 0},
		"a deadline in ten seconds":              {builders.TrainJob("a", builders.Deadline(70)), nil, 10 * time.Second},
		"a deadline beyond the end of time":      {builders.TrainJob("a", builders.Deadline(math.MaxInt64)), nil, lifetime.MaxWait},
		"one that the first sync found longer":   {builders.TrainJob("a", builders.Deadline(30), recorded(nil, new(int64(65)))), nil, 5 * time.Second},
		"one that was dropped and had not come":  {builders.TrainJob("a", recorded(nil, new(int64(65)))), nil, 5 * time.Second},
		"one that was put in afterwards":         {builders.TrainJob("a", builders.Deadline(thirty), recorded(nil, nil)), nil, 0},
		"a job that was made a moment from now":  {builders.TrainJob("a", builders.Deadline(30), func(job *trainer.TrainJob) { job.CreationTimestamp.Time = builders.At(65) }), nil, 35 * time.Second},
		"a job that was made very far from now":  {builders.TrainJob("a", builders.Deadline(30), func(job *trainer.TrainJob) { job.CreationTimestamp.Time = builders.Epoch.AddDate(5000, 0, 0) }), nil, lifetime.MaxWait},
		"a limit recorded as none though it was": {builders.TrainJob("a", builders.Deadline(1), recorded(new(int32(1)), nil)), nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.cached, tc.live)
			result, err := f.controller.syncDeadline(t.Context(), theJob)
			if err != nil || result.After != tc.wait {
				t.Errorf("got %v, %v, want to wait %v", result, err, tc.wait)
			}
			f.wantWrites()
		})
	}
}

// What was decided on an old state of a job does not happen: the API server refuses it,
// and the event of the newer state brings the job back.
func TestNothingHappensToAJobThatHasChanged(t *testing.T) {
	overdue := builders.TrainJob("a", builders.Deadline(30))
	finished := builders.TrainJob("a", builders.TTL(0), complete(1))
	deadline, ttl := (*Controller).syncDeadline, (*Controller).syncTTL
	cases := map[string]struct {
		sync         func(*Controller, context.Context, cache.ObjectName) (queue.Result, error)
		cached, live *trainer.TrainJob
	}{
		"a deadline that is over in the cache only": {deadline, overdue, builders.TrainJob("a", builders.Deadline(90))},
		"a job that has finished meanwhile":         {deadline, overdue, builders.TrainJob("a", builders.Deadline(30), complete(50))},
		"an unfinished job made anew":               {deadline, overdue, builders.TrainJob("a", builders.Deadline(30), builders.UID("newer"))},
		"an unfinished job that is gone":            {deadline, overdue, nil},
		"a job that finished later than it seems":   {ttl, finished, builders.TrainJob("a", builders.TTL(0), complete(55))},
		"a job that somebody has deleted":           {ttl, finished, builders.TrainJob("a", builders.TTL(0), complete(1), beingDeleted)},
		"a finished job made anew":                  {ttl, finished, builders.TrainJob("a", builders.UID("newer"))},
		"a finished job that is gone":               {ttl, finished, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.cached, tc.live)
			result, err := tc.sync(f.controller, t.Context(), theJob)
			if gone := tc.live == nil; result.After != 0 || (gone && err != nil) || (!gone && !apierrors.IsConflict(err)) {
				t.Errorf("got %v, %v, want a conflict, or nothing if the job is gone", result, err)
			}
			if tc.live != nil {
				got, err := f.client.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got.ResourceVersion = ""
				if diff := cmp.Diff(tc.live, got); diff != "" {
					t.Errorf("the job has changed (-want +got):\n%s", diff)
				}
			}
			if len(f.events.Events) > 0 {
				t.Errorf("event %q speaks of what did not happen", <-f.events.Events)
			}
			for _, timer := range metrics.Timers() {
				if n := f.lateness(timer); n != 0 {
					t.Errorf("%d observations of %s lateness, want none", n, timer)
				}
			}
		})
	}
}

func TestDeadlineEndsTheJob(t *testing.T) {
	ended := builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done")
	job := builders.TrainJob("a", builders.Deadline(60))
	cases := map[string]struct {
		job    *trainer.TrainJob
		jobSet *jobset.JobSet
		state  trainer.TrainJobState
		reason string
	}{
		"without a JobSet":               {job, nil, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded},
		"with a JobSet that runs":        {job, builders.JobSetOf(job, builders.Jobs(builders.Ready("node"))), trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded},
		"while it is suspended":          {builders.TrainJob("a", builders.Deadline(1), builders.Suspended(true)), nil, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded},
		"while it is being deleted":      {builders.TrainJob("a", builders.Deadline(1), beingDeleted), nil, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded},
		"by the limit of the first sync": {builders.TrainJob("a", recorded(nil, new(int64(60)))), nil, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded},
		"by the completion, if there is": {job, builders.JobSetOf(job, ended), trainer.TrainJobComplete, "AllJobsCompleted"},
		"not by the JobSet of a job whose runtime has a builder of its own": {
			builders.TrainJob("a", builders.Deadline(60), slurm), builders.JobSetOf(job, ended), trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded,
		},
		"over what that builder has said": {
			builders.TrainJob("a", builders.Deadline(60), slurm, builders.State("Running", "Started", builders.At(5))), nil, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded,
		},
		"not by another job's completion": {
			job, builders.JobSetOf(builders.TrainJob("a", builders.UID("older")), ended), trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.job, tc.job)
			if tc.jobSet != nil {
				if err := f.jobSets.Tracker().Add(tc.jobSet); err != nil {
					t.Fatal(err)
				}
			}
			if result, err := f.controller.syncDeadline(t.Context(), theJob); err != nil || result.After != 0 {
				t.Fatalf("got %v, %v", result, err)
			}
			f.wantWrites("patch status")
			got, err := f.client.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status.State != tc.state || got.Status.Reason != tc.reason {
				t.Errorf("got %s for %s, want %s for %s", got.Status.State, got.Status.Reason, tc.state, tc.reason)
			}
			exceeded := tc.reason == trainer.ReasonDeadlineExceeded
			if n := f.lateness(metrics.TimerDeadline); (n == 1) != exceeded || n > 1 {
				t.Errorf("lateness was measured %d times, want it once for a deadline: %t", n, exceeded)
			}
			if got.Status.CompletionTime == nil || !got.Status.CompletionTime.Time.Equal(builders.At(60)) {
				t.Errorf("completionTime %v, want %v", got.Status.CompletionTime, builders.At(60))
			}
		})
	}
}

// A write that waits for a slow API server is late by that too.
func TestLatenessLastsUntilTheEffectIsThere(t *testing.T) {
	cases := map[metrics.Timer]struct {
		job *trainer.TrainJob
		run func(*Controller) queue.SyncFunc
	}{
		metrics.TimerDeadline: {builders.TrainJob("a", builders.Deadline(58)), func(c *Controller) queue.SyncFunc { return c.syncDeadline }},
		metrics.TimerTTL:      {builders.TrainJob("a", builders.TTL(8), complete(50)), func(c *Controller) queue.SyncFunc { return c.syncTTL }},
	}
	for timer, tc := range cases {
		t.Run(string(timer), func(t *testing.T) {
			f := newFixture(t, tc.job, tc.job)
			f.client.PrependReactor("*", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				f.clock.Step(3 * time.Second)
				return false, nil, nil
			})
			if _, err := tc.run(f.controller)(t.Context(), theJob); err != nil {
				t.Fatal(err)
			}
			h, err := testutil.GetHistogramVecFromGatherer(f.registry, "trainjob_controller_"+string(timer)+"_lateness_seconds", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.GetAggregatedSampleSum(); got != 5 {
				t.Errorf("late by %v seconds, want 2 before the sync and 3 within it", got)
			}
		})
	}
}

func TestDeadlineThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	job := builders.TrainJob("a", builders.Deadline(1))
	f := newFixture(t, job, job)
	refusal := apierrors.NewForbidden(trainer.Resource("trainjobs"), "a", errors.New("no"))
	f.client.PrependReactor("patch", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
	for range 2 {
		if _, err := f.controller.syncDeadline(t.Context(), theJob); !errors.Is(err, refusal) {
			t.Errorf("error %v, want the refusal", err)
		}
	}
	f.wantWrites("patch status", "patch status")
}

func TestTTLWaitsOrDoesNothing(t *testing.T) {
	ttl := builders.TTL
	cases := map[string]struct {
		cached, live *trainer.TrainJob
		wait         time.Duration
	}{
		"a job that is gone":            {nil, nil, 0},
		"a job that has not finished":   {builders.TrainJob("a", ttl(0)), nil, 0},
		"a finished job without a TTL":  {builders.TrainJob("a", complete(1)), nil, 0},
		"a job of another controller":   {builders.TrainJob("a", ttl(0), complete(1), builders.ManagedBy(trainer.ManagedByMultiKueue)), nil, 0},
		"a job that is being deleted":   {builders.TrainJob("a", ttl(0), complete(1), beingDeleted), nil, 0},
		"ten seconds are left":          {builders.TrainJob("a", ttl(30), complete(40)), nil, 10 * time.Second},
		"years are left":                {builders.TrainJob("a", ttl(math.MaxInt32), complete(40)), nil, lifetime.MaxWait},
		"it finished a moment from now": {builders.TrainJob("a", ttl(0), complete(65)), nil, 5 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.cached, tc.live)
			result, err := f.controller.syncTTL(t.Context(), theJob)
			if err != nil || result.After != tc.wait {
				t.Errorf("got %v, %v, want to wait %v", result, err, tc.wait)
			}
			f.wantWrites()
		})
	}
}

func TestTTLDeletesExactlyWhatTheVerdictWasMadeOn(t *testing.T) {
	version := func(job *trainer.TrainJob) { job.ResourceVersion = "17" }
	for name, job := range map[string]*trainer.TrainJob{
		"by the spec":                    builders.TrainJob("a", builders.TTL(20), complete(40), version),
		"by the limit of the first sync": builders.TrainJob("a", recorded(new(int32(20)), nil), complete(40), version),
		"at once with a TTL of zero":     builders.TrainJob("a", builders.TTL(0), complete(60), version),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job, job)
			if result, err := f.controller.syncTTL(t.Context(), theJob); err != nil || result.After != 0 {
				t.Fatalf("got %v, %v", result, err)
			}
			f.wantWrites("delete")
			if n := f.lateness(metrics.TimerTTL); n != 1 {
				t.Errorf("lateness was measured %d times, want once", n)
			}
			actions := f.client.Actions()
			got := actions[len(actions)-1].(clienttesting.DeleteAction).GetDeleteOptions()
			background := metav1.DeletePropagationBackground
			want := metav1.DeleteOptions{
				Preconditions:     &metav1.Preconditions{UID: new(types.UID("a-uid")), ResourceVersion: new("17")},
				PropagationPolicy: &background,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("delete options (-want +got):\n%s", diff)
			}
			if event := <-f.events.Events; !strings.HasPrefix(event, "Normal TTLExpired ") {
				t.Errorf("event %q", event)
			}
		})
	}
}

func TestTTLThatCannotBeEnforcedIsTriedAgainUnlessTheJobIsGone(t *testing.T) {
	jobs := trainer.Resource("trainjobs")
	cases := map[string]struct {
		answer error
		fails  bool
	}{
		"refused":        {apierrors.NewForbidden(jobs, "a", errors.New("no")), true},
		"changed":        {apierrors.NewConflict(jobs, "a", errors.New("it has changed")), true},
		"gone meanwhile": {apierrors.NewNotFound(jobs, "a"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", builders.TTL(0), complete(1))
			f := newFixture(t, job, job)
			f.client.PrependReactor("delete", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.answer })
			if _, err := f.controller.syncTTL(t.Context(), theJob); errors.Is(err, tc.answer) != tc.fails {
				t.Errorf("error %v, want one: %t", err, tc.fails)
			}
			if len(f.events.Events) > 0 {
				t.Errorf("event %q speaks of a deletion that did not happen", <-f.events.Events)
			}
		})
	}
}

func TestEachJobWaitsInTheQueueThatHasToDoWithIt(t *testing.T) {
	cases := map[string]struct {
		object          any
		deadlines, ttls int
	}{
		"unfinished with a deadline":    {builders.TrainJob("a", builders.Deadline(1), builders.TTL(1)), 1, 0},
		"unfinished without a deadline": {builders.TrainJob("a", builders.TTL(1)), 0, 0},
		"finished with a TTL":           {builders.TrainJob("a", builders.Deadline(1), builders.TTL(1), complete(1)), 0, 1},
		"finished without a TTL":        {builders.TrainJob("a", builders.Deadline(1), complete(1)), 0, 0},
		"a deadline that was dropped":   {builders.TrainJob("a", recorded(nil, new(int64(1)))), 1, 0},
		"a TTL that was dropped":        {builders.TrainJob("a", recorded(new(int32(1)), nil), complete(1)), 0, 1},
		"a deletion nobody saw":         {cache.DeletedFinalStateUnknown{Key: "default/a"}, 0, 0},
		"something else":                {"a string", 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, nil)
			f.controller.enqueue(tc.object)
			if d, l := f.controller.deadlines.Len(), f.controller.ttls.Len(); d != tc.deadlines || l != tc.ttls {
				t.Errorf("%d wait for deadlines and %d for TTLs, want %d and %d", d, l, tc.deadlines, tc.ttls)
			}
		})
	}
}
