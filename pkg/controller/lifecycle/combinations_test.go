package lifecycle

import (
	"fmt"
	"math"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
)

// What one sync may do. To wait is written as the time to wait.
const (
	doNothing  = "nothing"
	doFail     = "Failed for DeadlineExceeded"
	doComplete = "Complete for JobSetCompleted"
	doAsJobSet = "Failed for JobSetFailed"
	doDelete   = "deleted"
)

// situation is one combination: a job's life, told in seconds of the test's time.
type situation struct {
	created, resumed, finished int
	deadline, ttl              *int64
	now                        int
	from                       trainjob.DeadlineFrom
	state                      string
}

// The states a job can be in, each with what is needed to put it there.
var stateOptions = map[string]func(s situation) []builders.JobOption{
	"no conditions": func(situation) []builders.JobOption { return nil },
	"Pending":       in(trainer.TrainJobPending, trainer.ReasonWaitingForPods),
	"Running":       in(trainer.TrainJobRunning, trainer.ReasonPodsReady),
	"Suspended": func(s situation) []builders.JobOption {
		return append(in(trainer.TrainJobSuspended, trainer.ReasonSuspended)(s), builders.Suspended(true))
	},
	"resumed, not noted": in(trainer.TrainJobSuspended, trainer.ReasonSuspended),
	"resumed": func(s situation) []builders.JobOption {
		return []builders.JobOption{
			func(job *trainer.TrainJob) { job.Status.ResumeTime = &metav1.Time{Time: builders.At(s.resumed)} },
			builders.State(trainer.TrainJobPending, trainer.ReasonWaitingForPods, builders.At(s.resumed)),
		}
	},
	"Complete":         in(trainer.TrainJobComplete, "AllJobsCompleted"),
	"Failed":           in(trainer.TrainJobFailed, "FailedJobs"),
	"DeadlineExceeded": in(trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded),
	"being deleted":    func(situation) []builders.JobOption { return []builders.JobOption{beingDeleted} },
	"being deleted, Complete": func(s situation) []builders.JobOption {
		return append(in(trainer.TrainJobComplete, "AllJobsCompleted")(s), beingDeleted)
	},
	"managed by another": func(situation) []builders.JobOption {
		return []builders.JobOption{builders.ManagedBy(trainer.ManagedByMultiKueue)}
	},
	"managed by another, Complete": func(s situation) []builders.JobOption {
		return append(in(trainer.TrainJobComplete, "AllJobsCompleted")(s), builders.ManagedBy(trainer.ManagedByMultiKueue))
	},
	"JobSet completed": in(trainer.TrainJobRunning, trainer.ReasonPodsReady),
	"JobSet failed":    in(trainer.TrainJobRunning, trainer.ReasonPodsReady),
}

// in puts the job into a state: since it finished for the terminal ones, and else since
// its creation.
func in(state trainer.TrainJobState, reason string) func(situation) []builders.JobOption {
	return func(s situation) []builders.JobOption {
		since := s.created
		if state == trainer.TrainJobComplete || state == trainer.TrainJobFailed {
			since = s.finished
		}
		return []builders.JobOption{builders.State(state, reason, builders.At(since))}
	}
}

func (s situation) String() string {
	limit := func(seconds *int64) string {
		if seconds == nil {
			return "none"
		}
		return fmt.Sprint(*seconds)
	}
	return fmt.Sprintf("%s at %d, deadline %s from %s, TTL %s, created %d, resumed %d, finished %d",
		s.state, s.now, limit(s.deadline), s.from, limit(s.ttl), s.created, s.resumed, s.finished)
}

func (s situation) job() *trainer.TrainJob {
	opts := append(stateOptions[s.state](s), func(job *trainer.TrainJob) {
		job.ResourceVersion = "1"
		job.CreationTimestamp = metav1.NewTime(builders.At(s.created))
	})
	if s.deadline != nil {
		opts = append(opts, builders.Deadline(*s.deadline))
	}
	if s.ttl != nil {
		opts = append(opts, builders.TTL(int32(*s.ttl)))
	}
	return builders.TrainJob("a", opts...)
}

// is says whether the state is one of those.
func (s situation) is(states ...string) bool {
	for _, state := range states {
		if s.state == state {
			return true
		}
	}
	return false
}

// promised is what the documentation says will happen to the job's deadline and to its
// TTL.
func (s situation) promised() (deadline, ttl string) {
	deadline, ttl = doNothing, doNothing
	if s.is("Complete", "Failed", "DeadlineExceeded") && s.ttl != nil {
		ttl = s.due(s.finished, *s.ttl, doDelete)
	}
	if s.is("Complete", "Failed", "DeadlineExceeded", "being deleted, Complete", "managed by another", "managed by another, Complete") || s.deadline == nil {
		return deadline, ttl
	}
	start := s.created
	if s.from == trainjob.FromResume {
		switch {
		case s.is("Suspended"):
			return doNothing, ttl
		case s.is("resumed, not noted"):
			start = s.now
		case s.is("resumed"):
			start = s.resumed
		}
	}
	end := doFail
	switch {
	case s.is("JobSet completed"):
		end = doComplete
	case s.is("JobSet failed"):
		end = doAsJobSet
	}
	return s.due(start, *s.deadline, end), ttl
}

// due is the action if its moment has come, and else how long to wait for it: a day at
// most.
func (s situation) due(start int, seconds int64, action string) string {
	const day = 24 * 3600
	passed := int64(s.now - start)
	switch {
	case seconds <= passed:
		return action
	case seconds > passed+day: // neither side can overflow
		return (day * time.Second).String()
	}
	return (time.Duration(seconds-passed) * time.Second).String()
}

// TestEveryCombinationDoesWhatIsPromised tries each state with each deadline, TTL and
// time, also with clocks that are behind those that set the creation and finish times.
func TestEveryCombinationDoesWhatIsPromised(t *testing.T) {
	seconds := func(s int64) *int64 { return &s }
	deadlines := []*int64{nil, seconds(10), seconds(200), seconds(100000), seconds(18446744074), seconds(math.MaxInt64)}
	ttls := []*int64{nil, seconds(0), seconds(100), seconds(100000), seconds(math.MaxInt32)}
	seen := map[string]int{}
	for _, from := range trainjob.DeadlinesFrom() {
		for _, skew := range []struct{ created, resumed, finished int }{
			{0, 50, 100}, {0, 5000, 5000}, {300, 350, 400}, {5000, 5000, 5000},
		} {
			for _, now := range []int{60, 199, 200, 250, 1000} {
				f := newFixtureFrom(t, from, nil, nil)
				f.clock.SetTime(builders.At(now))
				f.installOnDemand()
				for state := range stateOptions {
					for _, deadline := range deadlines {
						for _, ttl := range ttls {
							s := situation{skew.created, skew.resumed, skew.finished, deadline, ttl, now, from, state}
							gotDeadline, gotTTL := f.act(s)
							wantDeadline, wantTTL := s.promised()
							if gotDeadline != wantDeadline || gotTTL != wantTTL {
								t.Fatalf("%s: deadline: %s, TTL: %s; want %s and %s", s, gotDeadline, gotTTL, wantDeadline, wantTTL)
							}
							if got, _ := f.controller.timerOf(s.job()); (got == metrics.TimerDeadline) != (wantDeadline != doNothing) || (got == metrics.TimerTTL) != (wantTTL != doNothing) {
								t.Fatalf("%s: waits for %q; its deadline: %s, its TTL: %s", s, got, wantDeadline, wantTTL)
							}
							seen[wantDeadline]++
							seen[wantTTL]++
						}
					}
				}
			}
		}
	}
	for _, action := range []string{doNothing, doFail, doComplete, doAsJobSet, doDelete, "24h0m0s"} {
		if seen[action] < 100 {
			t.Errorf("only %d combinations ended in %q", seen[action], action)
		}
	}
}

// act puts the job of a situation in place, syncs it for both timers, each time anew,
// and says what each has done.
func (f *fixture) act(s situation) (deadline, ttl string) {
	f.t.Helper()
	job := s.job()
	jobSets := jobset.SchemeGroupVersion.WithResource("jobsets")
	if err := f.jobSets.Tracker().Delete(jobSets, theJob.Namespace, theJob.Name); err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	switch s.state {
	case "JobSet completed":
		f.must(f.jobSets.Tracker().Add(builders.JobSetOf(job, builders.Ended(jobset.JobSetCompleted, "JobSetCompleted", "it has ended"))))
	case "JobSet failed":
		f.must(f.jobSets.Tracker().Add(builders.JobSetOf(job, builders.Ended(jobset.JobSetFailed, "JobSetFailed", "it has ended"))))
	}
	return f.outcome(s, job, f.controller.syncDeadline), f.outcome(s, job, f.controller.syncTTL)
}

func (f *fixture) outcome(s situation, job *trainer.TrainJob, sync queue.SyncFunc) string {
	f.t.Helper()
	f.must(f.jobs.Replace([]any{job}, ""))
	f.next = job
	f.client.ClearActions()
	result, err := sync(f.t.Context(), theJob)
	if err != nil {
		f.t.Fatalf("%s: %v", s, err)
	}
	f.drainEvents()
	writes := f.writes()
	switch {
	case len(writes) > 1 || (len(writes) == 1 && result.After != 0) || result.After < 0 || result.After > 24*time.Hour:
		f.t.Fatalf("%s: wrote %v and comes back after %v", s, writes, result.After)
	case result.After > 0:
		return result.After.String()
	case len(writes) == 0:
		return doNothing
	case writes[0] == "delete":
		return doDelete
	}
	object, err := f.client.Tracker().Get(trainJobs, theJob.Namespace, theJob.Name)
	f.must(err)
	after := object.(*trainer.TrainJob)
	if ends := terminal(after); len(ends) != 1 {
		f.t.Fatalf("%s: ends as %v", s, ends)
	}
	return fmt.Sprintf("%s for %s", after.Status.State, after.Status.Reason)
}

var trainJobs = trainer.SchemeGroupVersion.WithResource("trainjobs")

// installOnDemand puts the job of a combination on the API server when that is asked for
// the first time, which most combinations never do.
func (f *fixture) installOnDemand() {
	f.client.PrependReactor("*", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		if f.next == nil {
			return false, nil, nil
		}
		if err := f.client.Tracker().Delete(trainJobs, theJob.Namespace, theJob.Name); err != nil && !apierrors.IsNotFound(err) {
			return true, nil, err
		}
		job := f.next.DeepCopy()
		f.next = nil
		return false, nil, f.client.Tracker().Add(job)
	})
}

// terminal are the terminal conditions that are True.
func terminal(job *trainer.TrainJob) []string {
	var ends []string
	for _, state := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		if meta.IsStatusConditionTrue(job.Status.Conditions, string(state)) {
			ends = append(ends, string(state))
		}
	}
	return ends
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// drainEvents makes room for those of the next sync.
func (f *fixture) drainEvents() {
	for len(f.events.Events) > 0 {
		<-f.events.Events
	}
}
