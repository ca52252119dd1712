package app

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// answering is a connection on which everything succeeds.
type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestWritesLeaveOnlyWhileTheLeaseIsHeld(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	f := &fence{clock: now, lease: 10 * time.Second}
	lock := &watchedLock{Interface: &memoryLock{}, fence: f, lost: func() { t.Error("lost what nobody took") }}
	connection := &fenced{fence: f, next: answering{}}
	try := func(method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://api/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := connection.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	expect := func(when string, open bool) {
		t.Helper()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if err := try(method); (err == nil) != open || (err != nil && !errors.Is(err, errFenced)) {
				t.Errorf("%s, %s: %v; want it sent: %v", when, method, err, open)
			}
		}
		if err := try(http.MethodGet); err != nil {
			t.Errorf("%s, GET: %v", when, err)
		}
	}
	expect("before the first lease", false)
	renew := func(holder string) {
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
			t.Fatal(err)
		}
	}
	renew("me")
	expect("with a lease", true)
	now.SetTime(now.Now().Add(10*time.Second - 1))
	expect("just before its end", true)
	now.SetTime(now.Now().Add(1))
	expect("at its end", false)
	renew("me")
	expect("renewed", true)
	lock.Interface.(*memoryLock).breakDown()
	now.SetTime(now.Now().Add(10 * time.Second))
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err == nil {
		t.Fatal("a broken lock was renewed")
	}
	expect("after a renewal that failed", false)
}

func TestTheFenceClosesWhenEitherClockSaysSo(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		lease           time.Duration
		running, asleep time.Duration
		open            bool
	}{
		"within the lease":                                   {lease: 10 * time.Second, running: 9 * time.Second, open: true},
		"after the lease":                                    {lease: 10 * time.Second, running: 10 * time.Second},
		"the machine slept past the lease":                   {lease: 10 * time.Second, running: time.Second, asleep: 9 * time.Second},
		"the machine slept for less than what is left":       {lease: 10 * time.Second, running: time.Second, asleep: 8 * time.Second, open: true},
		"the wall clock was set back after the lease":        {lease: 10 * time.Second, running: 10 * time.Second, asleep: -time.Hour},
		"the wall clock was set back within the lease":       {lease: 10 * time.Second, running: 9 * time.Second, asleep: -time.Hour, open: true},
		"the fraction of a second that a Lease cannot store": {lease: 2900 * time.Millisecond, running: 2 * time.Second},
		"before the fraction that a Lease cannot store":      {lease: 2900 * time.Millisecond, running: 2*time.Second - 1, open: true},
	} {
		now := clocktesting.NewFakePassiveClock(start)
		f := &fence{clock: now, lease: c.lease}
		f.renewed(start)
		now.SetTime(later(start, c.running, c.asleep))
		if got := f.open(); got != c.open {
			t.Errorf("%s: open is %v, want %v", name, got, c.open)
		}
	}
}

// later is a time by whose monotonic clock only the time in which the machine ran has
// passed. No function of package time makes one.
func later(start time.Time, running, asleep time.Duration) time.Time {
	at := start.Add(running + asleep)
	monotonic := reflect.ValueOf(&at).Elem().FieldByName("ext")
	*(*int64)(monotonic.Addr().UnsafePointer()) -= int64(asleep)
	return at
}

func TestTimesOfASleepingMachineAreWhatTheySeem(t *testing.T) {
	start := time.Now()
	at := later(start, time.Second, time.Hour)
	if ran, passed := at.Sub(start), at.Round(0).Sub(start.Round(0)); ran != time.Second || passed != time.Hour+time.Second {
		t.Errorf("it ran for %s while %s passed, want 1s and 1h0m1s", ran, passed)
	}
}

func TestALeaseThatAnotherHasTakenEndsTheWorkAtOnce(t *testing.T) {
	w := &worker{started: make(chan struct{})}
	lock := &memoryLock{busy: w.isBusy}
	slow := fast
	slow.LeaseDuration.Duration, slow.RenewDeadline.Duration = 2*time.Hour, time.Hour
	result := make(chan error)
	go func() {
		result <- lead(t.Context(), lock, slow, leaderelection.NewLeaderHealthzAdaptor(time.Second), newFence(), w.work)
	}()
	<-w.started
	lock.take("another")
	select {
	case err := <-result:
		if !errors.Is(err, errLeadershipLost) {
			t.Errorf("error %v, want %v", err, errLeadershipLost)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the old leader goes on until its renew deadline")
	}
}

// take is what another replica does: from then on updates that do not know of it fail.
func (l *memoryLock) take(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := metav1.Now()
	l.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3600, AcquireTime: now, RenewTime: now}
	l.taken = true
}
