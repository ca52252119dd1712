package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
)

// The tests here run the controller with its queues on a clock that moves only when it is
// stepped. In a synctest bubble everything that a step sets off is over when Wait returns.

// theater plays the API server's watch for a running controller: what a test or the
// controller writes comes back as an event when the test says so.
type theater struct {
	*fixture
	stop func()
}

// onStage runs a test in a bubble, with a controller that works. The time is 60.
func onStage(t *testing.T, from trainjob.DeadlineFrom, test func(t *testing.T, th *theater)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		th := &theater{fixture: newFixtureFrom(t, from, nil, nil)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			th.controller.Run(ctx, 2)
		}()
		th.stop = func() {
			cancel()
			<-done
		}
		defer th.stop()
		synctest.Wait()
		test(t, th)
	})
}

// put stores a job as a user or another controller would, and tells the controller.
func (th *theater) put(job *trainer.TrainJob) {
	th.t.Helper()
	job = job.DeepCopy()
	job.ResourceVersion = fmt.Sprint("put-", th.clock.Now().UnixNano(), len(th.client.Actions()))
	th.store(job)
	th.watch(job.Name)
}

// store is put without the event.
func (th *theater) store(job *trainer.TrainJob) {
	th.t.Helper()
	if th.live(job.Name) != nil {
		th.must(th.client.Tracker().Delete(trainJobs, builders.Namespace, job.Name))
	}
	th.must(th.client.Tracker().Add(job))
}

// edit changes a job.
func (th *theater) edit(name string, change builders.JobOption) {
	th.t.Helper()
	job := th.live(name).DeepCopy()
	change(job)
	th.put(job)
}

// live is a job as the API server has it, nil if it is gone.
func (th *theater) live(name string) *trainer.TrainJob {
	th.t.Helper()
	job, err := th.client.Tracker().Get(trainJobs, builders.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	th.must(err)
	return job.(*trainer.TrainJob)
}

// watch brings the cache up to date for a job and delivers the event.
func (th *theater) watch(name string) {
	th.t.Helper()
	if job := th.live(name); job != nil {
		th.must(th.jobs.Update(job))
		th.controller.enqueue(job)
	} else if old, ok, _ := th.jobs.GetByKey(builders.Namespace + "/" + name); ok {
		th.must(th.jobs.Delete(old))
		th.controller.enqueue(old)
	}
	synctest.Wait()
}

// until steps the clock to a second and waits until all that sets off has happened.
func (th *theater) until(second int) {
	th.t.Helper()
	th.clock.Step(builders.At(second).Sub(th.clock.Now()))
	synctest.Wait()
}

// wantState checks a job's state, "" before its first status and "gone" after it.
func (th *theater) wantState(name, want string) {
	th.t.Helper()
	got := "gone"
	if job := th.live(name); job != nil {
		got = string(job.Status.State)
	}
	if got != want {
		th.t.Fatalf("at %v job %s is %q, want %q", th.clock.Since(builders.Epoch), name, got, want)
	}
}

// wantWaiting checks how many jobs each timer is said to run for.
func (th *theater) wantWaiting(deadlines, ttls float64) {
	th.t.Helper()
	got := th.gauge("trainjob_controller_timer_waiting_jobs")
	want := map[string]float64{string(metrics.TimerDeadline): deadlines, string(metrics.TimerTTL): ttls}
	if diff := cmp.Diff(want, got); diff != "" {
		th.t.Errorf("at %v, jobs that wait (-want +got):\n%s", th.clock.Since(builders.Epoch), diff)
	}
}

// gauge is what a gauge with one label says at a scrape.
func (th *theater) gauge(name string) map[string]float64 {
	th.t.Helper()
	families, err := th.registry.Gather()
	th.must(err)
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == name {
			for _, series := range family.GetMetric() {
				got[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
			}
		}
	}
	return got
}

func TestADeadlineFiresWhenItIsDueAndNotBefore(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(100)))
		th.until(99)
		th.clock.Step(999 * time.Millisecond)
		synctest.Wait()
		th.wantState("a", "")
		th.clock.Step(time.Millisecond)
		synctest.Wait()
		th.wantState("a", "Failed")
		th.wantWrites("patch status")
	})
}

func TestEarlyWakeUpsDoNotEatATimer(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(200)))
		for second := 61; second < 160; second++ {
			th.until(second)
			th.edit("a", func(job *trainer.TrainJob) { job.Labels = map[string]string{"second": fmt.Sprint(second)} })
		}
		th.until(199)
		th.wantState("a", "")
		th.wantWrites()
		th.until(200)
		th.wantState("a", "Failed")
	})
}

func TestATimerLongerThanTheQueuesLongestWaitFiresInTime(t *testing.T) {
	const ninetyHours = 90 * 3600
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(ninetyHours)))
		for second := 3600; second < ninetyHours; second += 1800 {
			th.until(second)
		}
		th.until(ninetyHours - 1)
		th.wantState("a", "")
		th.until(ninetyHours)
		th.wantState("a", "Failed")
	})
}

func TestAClockThatJumpsFiresWhatHasBecomeDue(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(5000)))
		th.put(builders.TrainJob("b", builders.Deadline(50000)))
		th.until(7000)
		th.wantState("a", "Failed")
		th.wantState("b", "")
	})
}

func TestDeadlinesInTheSameSecondAllFire(t *testing.T) {
	const jobs = 300
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		for i := range jobs {
			th.put(builders.TrainJob(fmt.Sprint("job-", i), builders.Deadline(100)))
		}
		th.events.Events = nil // nobody reads them
		th.wantWaiting(jobs, 0)
		th.until(99)
		th.wantWrites()
		th.until(100)
		for i := range jobs {
			th.wantState(fmt.Sprint("job-", i), "Failed")
		}
		if writes := len(th.writes()); writes != jobs {
			t.Errorf("%d writes for %d jobs", writes, jobs)
		}
		if n := th.lateness(metrics.TimerDeadline); n != jobs {
			t.Errorf("lateness was measured %d times, want %d", n, jobs)
		}
	})
}

func TestAJobMadeAnewHasATimerOfItsOwn(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(100)))
		th.until(80)
		th.must(th.client.Tracker().Delete(trainJobs, builders.Namespace, "a"))
		th.watch("a")
		th.wantWaiting(0, 0)
		th.put(builders.TrainJob("a", builders.UID("second"), builders.Deadline(100), func(job *trainer.TrainJob) {
			job.CreationTimestamp = metav1.NewTime(builders.At(80))
		}))
		th.until(179)
		th.wantState("a", "")
		th.until(180)
		th.wantState("a", "Failed")
	})
}

func TestAJobGoesFromOneTimerToTheOther(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(100), builders.TTL(30)))
		th.put(builders.TrainJob("b", builders.TTL(30)))
		th.put(builders.TrainJob("c", builders.Deadline(100), builders.ManagedBy(trainer.ManagedByMultiKueue)))
		th.wantWaiting(1, 0)
		th.until(100)
		th.wantState("a", "Failed")
		th.wantWaiting(1, 0) // the cache does not show it yet
		th.watch("a")
		th.wantWaiting(0, 1)
		th.edit("b", complete(100))
		th.wantWaiting(0, 2)
		th.until(129)
		th.wantState("a", "Failed")
		th.until(130)
		th.wantState("a", "gone")
		th.wantState("b", "gone")
		th.wantState("c", "")
		th.watch("a")
		th.watch("b")
		th.wantWaiting(0, 0)
		th.wantWrites("patch status", "delete", "delete")
	})
}

func TestNothingWaitsWhereNothingWorks(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(100)))
		th.wantWaiting(1, 0)
		th.stop()
		th.wantWaiting(0, 0)
	})
}

func TestATimerWhoseEffectTheAPIServerRefusesIsOverdueUntilItIsHad(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		refuse := true
		for _, verb := range []string{"patch", "delete"} {
			th.client.PrependReactor(verb, "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return refuse, nil, apierrors.NewServiceUnavailable("not now")
			})
		}
		th.put(builders.TrainJob("a", builders.Deadline(100)))
		th.put(builders.TrainJob("b", builders.Deadline(90)))
		th.put(builders.TrainJob("c", builders.TTL(70), complete(60)))
		overdue := func(second int, deadline, ttl float64) {
			t.Helper()
			th.until(second)
			for _, name := range []string{"a", "b", "c"} {
				th.watch(name)
			}
			want := map[string]float64{string(metrics.TimerDeadline): deadline, string(metrics.TimerTTL): ttl}
			if diff := cmp.Diff(want, th.gauge("trainjob_controller_timer_overdue_longest_seconds")); diff != "" {
				t.Errorf("at %d, overdue (-want +got):\n%s", second, diff)
			}
		}
		overdue(89, 0, 0)
		overdue(110, 20, 0)
		overdue(150, 60, 20)
		refuse = false
		overdue(300, 0, 0) // after the longest backoff
		th.wantState("b", "Failed")
	})
}

func TestATTLIsAskedForAgainWhenTheJobHasChanged(t *testing.T) {
	onStage(t, trainjob.FromCreation, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.TTL(40), complete(60)))
		// Somebody labels the job, and the event has not come when the time has.
		job := th.live("a").DeepCopy()
		job.Labels, job.ResourceVersion = map[string]string{"new": "yes"}, "newer"
		th.store(job)
		th.until(100)
		th.wantState("a", "Complete")
		th.watch("a")
		th.wantState("a", "gone")
		th.wantWrites("delete", "delete")
	})
}

func TestADeadlineFromAResume(t *testing.T) {
	note := func(second int) builders.JobOption { // as the other controllers do
		return func(job *trainer.TrainJob) {
			job.Status = *trainjob.Next(job, trainjob.Observed{}, builders.At(second))
		}
	}
	onStage(t, trainjob.FromResume, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("a", builders.Deadline(100), builders.Suspended(true)))
		th.wantWaiting(0, 0)
		th.until(500)
		th.edit("a", note(500))
		th.until(1000)
		th.wantState("a", "Suspended")

		// Resumed at 1000, noted at 1010 only: the condition is old all that time.
		th.edit("a", builders.Suspended(false))
		th.wantWaiting(1, 0)
		th.until(1010)
		th.wantState("a", "Suspended")
		th.edit("a", note(1010))
		th.wantState("a", "Pending")

		// Suspended a moment before the end, and resumed: it has all its time again.
		th.until(1109)
		th.edit("a", builders.Suspended(true))
		th.wantWaiting(0, 0)
		th.until(1115)
		th.wantState("a", "Pending")
		th.edit("a", note(1115))
		th.until(2000)
		th.wantState("a", "Suspended")
		th.edit("a", func(job *trainer.TrainJob) {
			builders.Suspended(false)(job)
			note(2000)(job)
		})
		th.until(2099)
		th.wantState("a", "Pending")
		th.wantWrites()
		th.until(2100)
		th.wantState("a", "Failed")
		failed := meta.FindStatusCondition(th.live("a").Status.Conditions, string(trainer.TrainJobFailed))
		want := "the job was not finished 100 seconds (activeDeadlineSeconds) after it was resumed at " + builders.At(2000).Format(time.RFC3339)
		if failed.Message != want {
			t.Errorf("message %q, want %q", failed.Message, want)
		}
	})
}

// A controller that starts finds the deadline in the objects alone.
func TestADeadlineFromAResumeOutlivesARestart(t *testing.T) {
	resumedAt := func(second int) builders.JobOption {
		return func(job *trainer.TrainJob) {
			builders.State(trainer.TrainJobPending, trainer.ReasonWaitingForPods, builders.At(second))(job)
			job.Status.ResumeTime = &metav1.Time{Time: builders.At(second)}
		}
	}
	onStage(t, trainjob.FromResume, func(t *testing.T, th *theater) {
		th.put(builders.TrainJob("overdue", builders.Deadline(10), resumedAt(30)))
		th.put(builders.TrainJob("running", builders.Deadline(100), resumedAt(30)))
		th.wantState("overdue", "Failed")
		th.until(129)
		th.wantState("running", "Pending")
		th.until(130)
		th.wantState("running", "Failed")
	})
}
