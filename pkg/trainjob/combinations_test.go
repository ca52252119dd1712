package trainjob

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/test/builders"
)

// endless is a limit whose moment never comes.
const endless = -1

// lifeState is a state that a job can be in, and what the promises say about it: the
// second its deadline counts from in either mode, and the second it finished.
type lifeState struct {
	name string
	opts []builders.JobOption
	// creation and resume are the seconds that the deadline counts from, noStart if none
	// runs, justNow if it is taken to begin at the moment of the question.
	creation, resume int
	// finished is a second, noStart if the job has not finished.
	finished int
}

const (
	noStart = -1 << 20
	justNow = 1 << 20
)

// lifeStates were all created at second 0.
func lifeStates() []lifeState {
	at := func(state trainer.TrainJobState, reason string, second int) builders.JobOption {
		return builders.State(state, reason, builders.At(second))
	}
	suspended, resumed := suspendedCondition(metav1.ConditionTrue, 20), suspendedCondition(metav1.ConditionFalse, 40)
	states := []lifeState{
		{"no conditions", nil, 0, 0, noStart},
		{"no conditions, resumed unseen", []builders.JobOption{generation(2)}, 0, justNow, noStart},
		{"no conditions, suspended", []builders.JobOption{builders.Suspended(true)}, 0, noStart, noStart},
		{"Pending", []builders.JobOption{pending(1)}, 0, 0, noStart},
		{"Running", []builders.JobOption{at(trainer.TrainJobRunning, trainer.ReasonPodsReady, 5)}, 0, 0, noStart},
		{"Suspended", []builders.JobOption{builders.Suspended(true), suspended}, 0, noStart, noStart},
		{"Suspended, resume not noted", []builders.JobOption{suspended, generation(2)}, 0, justNow, noStart},
		{"Pending after a resume", []builders.JobOption{resumed, pending(40)}, 0, 40, noStart},
		{"Pending after a resume, suspension not noted", []builders.JobOption{resumed, pending(40), builders.Suspended(true)}, 0, noStart, noStart},
		{"Complete", []builders.JobOption{at(trainer.TrainJobComplete, "AllJobsCompleted", 100)}, 0, 0, 100},
		{"Failed", []builders.JobOption{at(trainer.TrainJobFailed, "FailedJobs", 100)}, 0, 0, 100},
		{"Failed for the deadline", []builders.JobOption{at(trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 100)}, 0, 0, 100},
		{"Failed, then Complete by another hand", []builders.JobOption{at(trainer.TrainJobFailed, "FailedJobs", 100), at(trainer.TrainJobComplete, "Late", 180)}, 0, 0, 100},
	}
	for _, s := range states { // what is being deleted keeps its moments
		opts := append([]builders.JobOption{func(job *trainer.TrainJob) {
			job.DeletionTimestamp = &metav1.Time{Time: builders.At(50)}
			job.Generation++
		}}, s.opts...)
		if s.name == "no conditions, resumed unseen" {
			opts = append(opts, generation(3))
		}
		states = append(states, lifeState{"being deleted, " + s.name, opts, s.creation, s.resume, s.finished})
	}
	return states
}

// moment judges by seconds: when does something happen that was to happen `limit`
// seconds after `start`?
func moment(start, limit int, now time.Time) lifetime.Verdict {
	if start == justNow {
		start = int(now.Sub(builders.Epoch) / time.Second) // the nows of resumes unseen are whole seconds
	}
	left := builders.At(start + limit).Sub(now)
	switch {
	case limit == endless || left > 24*time.Hour:
		return lifetime.Verdict{Kind: lifetime.Wait, Wait: 24 * time.Hour}
	case left > 0:
		return lifetime.Verdict{Kind: lifetime.Wait, Wait: left}
	}
	return lifetime.Verdict{Kind: lifetime.Expired, Late: -left}
}

func TestVerdictsOfEveryCombination(t *testing.T) {
	deadlines := map[string]struct {
		option  builders.JobOption
		seconds int
	}{
		"short": {builders.Deadline(10), 10}, "near": {builders.Deadline(200), 200}, "far": {builders.Deadline(1000000), 1000000},
		"overflowing": {builders.Deadline(18446744074), endless}, "largest": {builders.Deadline(math.MaxInt64), endless},
	}
	ttls := map[string]struct {
		option  builders.JobOption
		seconds int
	}{
		"zero": {builders.TTL(0), 0}, "near": {builders.TTL(100), 100}, "far": {builders.TTL(1000000), 1000000}, "largest": {builders.TTL(math.MaxInt32), endless},
	}
	nows := []int{-1000, 0, 41, 100, 150, 200, 240, 241, 5000}
	n := 0
	for _, state := range lifeStates() {
		for _, second := range nows {
			now := builders.At(second)
			for name, deadline := range deadlines {
				job := builders.TrainJob("a", append([]builders.JobOption{deadline.option}, state.opts...)...)
				for from, start := range map[DeadlineFrom]int{FromCreation: state.creation, FromResume: state.resume} {
					want := never
					if start != noStart {
						want = moment(start, deadline.seconds, now)
					}
					n++
					if got := Deadline(job, from, now); got != want {
						t.Errorf("%s, %s deadline from %s, at %d: %+v, want %+v", state.name, name, from, second, got, want)
					}
				}
			}
			for name, ttl := range ttls {
				job := builders.TrainJob("a", append([]builders.JobOption{ttl.option}, state.opts...)...)
				want := never
				if state.finished != noStart {
					want = moment(state.finished, ttl.seconds, now)
				}
				n++
				if got := TTL(job, now); got != want {
					t.Errorf("%s, %s TTL, at %d: %+v, want %+v", state.name, name, second, got, want)
				}
			}
			none := builders.TrainJob("a", state.opts...)
			for name, got := range map[string]lifetime.Verdict{
				"TTL": TTL(none, now), "deadline": Deadline(none, FromCreation, now), "deadline from a resume": Deadline(none, FromResume, now),
			} {
				if got != never {
					t.Errorf("%s without a limit, %s, at %d: %+v", state.name, name, second, got)
				}
			}
		}
	}
	if n < 3000 {
		t.Errorf("only %d combinations", n)
	}
}
