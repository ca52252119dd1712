package queue

import (
	"testing"
	"time"
	"unsafe"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
)

// machine is the clock of a machine whose wall clock can be moved by itself.
type machine struct {
	*clocktesting.FakeClock
	begin time.Time // with a reading of the process's clock
	start time.Time // of the fake clock
	moved time.Duration
}

func newMachine() *machine {
	begin := time.Now()
	return &machine{FakeClock: clocktesting.NewFakeClock(begin.Round(0)), begin: begin, start: begin.Round(0)}
}

func (m *machine) Now() time.Time {
	passed := m.FakeClock.Now().Sub(m.start)
	return behind(m.begin.Add(passed+m.moved), m.moved)
}

// behind puts the process's clock back in a time, which has no method for it. That it
// works is checked.
func behind(t time.Time, by time.Duration) time.Time {
	layout := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	layout.ext -= int64(by)
	return t
}

func TestOnwardTakesTheFasterClock(t *testing.T) {
	m := newMachine()
	before := m.Now()
	m.moved = time.Hour
	if after := m.Now(); after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != time.Hour {
		t.Fatalf("the machine's clocks went on by %v and %v, want 0 and an hour", after.Sub(before), after.Round(0).Sub(before.Round(0)))
	}
	m.moved = 0
	c := newOnward(m)
	last := c.Now()
	for _, step := range []struct {
		name          string
		passed, moved time.Duration
		want          time.Duration
	}{
		{"both go on", time.Second, 0, time.Second},
		{"the machine was suspended", 0, time.Hour, time.Hour},
		{"both stand", 0, 0, 0},
		{"the clock is put back", time.Second, -2 * time.Hour, time.Second},
		{"and goes on", time.Minute, 0, time.Minute},
	} {
		m.Step(step.passed)
		m.moved += step.moved
		if got := c.Since(last); got != step.want {
			t.Errorf("%s: %v have passed, want %v", step.name, got, step.want)
		}
		last = c.Now()
	}
}

func TestWhatIsDueByTheWallClockComesWithinSeconds(t *testing.T) {
	key := cache.ObjectName{Namespace: "ns", Name: "a"}
	for name, tc := range map[string]struct {
		wait, moved, passed time.Duration
	}{
		"after the clock was put forward": {time.Hour, 2 * time.Hour, 10 * time.Second},
		"after it was put back":           {time.Second, -2 * time.Hour, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{Clock: newOnward(m)})
			defer q.ShutDown()
			q.AddAfter(key, tc.wait)
			for m.Waiters() < 2 { // its ticker, and the timer of the key
				time.Sleep(time.Millisecond)
			}
			m.moved = tc.moved
			m.Step(tc.passed)
			if got, _ := q.Get(); got != key {
				t.Errorf("got %v", got)
			}
		})
	}
}
