package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// errFenced is what a write gets when the lease has run out.
var errFenced = errors.New("not sent: this replica does not hold the lease, and another may be at work")

// fence lets writes through only while the lease is held. Leader election stops the
// workers when the lease is lost, but it learns of it only when it gets to run: a process
// that was stopped, or starved, for longer than the lease lasts would go on for a moment
// beside its successor. The fence asks the clock at every write.
//
// What has left the process before the lease ran out, and arrives after it, is for the
// preconditions that every write carries.
type fence struct {
	clock clock.PassiveClock
	lease time.Duration

	mu    sync.Mutex
	until time.Time // zero: never held
}

// wrap makes a configuration whose clients write only inside the fence. They read as
// before.
func (f *fence) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fenced{fence: f, next: next} })
	return config
}

// open says whether the lease is held now.
func (f *fence) open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Go compares by the monotonic clock, which stands still while a machine is suspended;
	// the wall clock does not, but can be set back. Both must say so.
	now := f.clock.Now()
	return now.Before(f.until) && now.Round(0).Before(f.until.Round(0))
}

// held says whether the lease was ever held.
func (f *fence) held() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.until.IsZero()
}

// renewed opens the fence for as long as a lease lasts that was asked for at a time. No
// other replica can have seen it before that, so none counts to the end of it sooner. The
// Lease says how long in whole seconds, rounded down, and that is what the others go by.
func (f *fence) renewed(asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = asked.Add(f.lease.Truncate(time.Second))
}

// fenced is a connection behind a fence.
type fenced struct {
	fence *fence
	next  http.RoundTripper
}

func (t *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || t.fence.open() {
		return t.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // a RoundTripper has to, also when it fails
	}
	return nil, errFenced
}

// WrappedRoundTripper lets client-go see the connection behind.
func (t *fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// watchedLock tells the fence of every renewal, and calls lost as soon as it sees that
// somebody else has taken the lease that was ours. The elector itself would go on trying
// until its renew deadline.
type watchedLock struct {
	resourcelock.Interface
	fence *fence
	lost  func()
}

func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.fence.held() && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.lost()
	}
	return record, raw, err
}

func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *watchedLock) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	asked := l.fence.clock.Now()
	err := write()
	if err == nil && record.HolderIdentity == l.Identity() {
		l.fence.renewed(asked)
	}
	return err
}
