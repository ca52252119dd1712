package app

import (
	"errors"
	"io"
	"net/http"
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
