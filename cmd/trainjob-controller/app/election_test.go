package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/utils/clock"
)

// memoryLock is a lease in memory that can be made to fail.
type memoryLock struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	broken bool
	taken  bool        // by another, with whom updates conflict
	busy   func() bool // whether work is going on, asked at each release
	freed  []bool      // what busy said
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil, nil, errors.New("no API server")
	}
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	record := *l.record
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return errors.New("no API server")
	}
	if l.taken {
		return errors.New("conflict")
	}
	if record.HolderIdentity == "" {
		l.freed = append(l.freed, l.busy())
	}
	l.record = &record
	return nil
}

func (l *memoryLock) RecordEvent(string)                                           {}
func (l *memoryLock) Identity() string                                             { return "me" }
func (l *memoryLock) Describe() string                                             { return "memory" }
func (l *memoryLock) ObjectReference(string) (runtime.Object, map[string]struct{}) { return nil, nil }

func (l *memoryLock) breakDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

var fast = componentbaseconfig.LeaderElectionConfiguration{
	LeaseDuration: metav1.Duration{Duration: 600 * time.Millisecond},
	RenewDeadline: metav1.Duration{Duration: 300 * time.Millisecond},
	RetryPeriod:   metav1.Duration{Duration: 50 * time.Millisecond},
}

func newFence() *fence { return &fence{clock: clock.RealClock{}, lease: fast.LeaseDuration.Duration} }

// worker is work that takes a moment to stop.
type worker struct {
	started chan struct{}
	mu      sync.Mutex
	busy    bool
}

func (w *worker) work(ctx context.Context) {
	w.set(true)
	close(w.started)
	<-ctx.Done()
	timer := time.NewTimer(100 * time.Millisecond)
	<-timer.C
	w.set(false)
}

func (w *worker) set(busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = busy
}

func (w *worker) isBusy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

func TestTheLeaseIsGivenBackOnlyAfterTheWorkHasStopped(t *testing.T) {
	w := &worker{started: make(chan struct{})}
	lock := &memoryLock{busy: w.isBusy}
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		result <- lead(ctx, lock, fast, leaderelection.NewLeaderHealthzAdaptor(time.Second), newFence(), w.work)
	}()
	<-w.started
	stop()
	if err := <-result; err != nil {
		t.Errorf("a stop that was asked for is no error, got %v", err)
	}
	if len(lock.freed) != 1 || lock.freed[0] {
		t.Errorf("releases (true: while work was going on): %v, want one, without work", lock.freed)
	}
}

func TestALostLeaseStopsTheWorkAndIsAnError(t *testing.T) {
	w := &worker{started: make(chan struct{})}
	lock := &memoryLock{busy: w.isBusy}
	result := make(chan error)
	go func() {
		result <- lead(t.Context(), lock, fast, leaderelection.NewLeaderHealthzAdaptor(time.Second), newFence(), w.work)
	}()
	<-w.started
	lock.breakDown()
	if err := <-result; !errors.Is(err, errLeadershipLost) {
		t.Errorf("error %v, want %v", err, errLeadershipLost)
	}
	if w.isBusy() {
		t.Error("lead returned while work was going on")
	}
	if len(lock.freed) != 0 {
		t.Error("a lease that was lost was given back")
	}
}

func TestAReplicaThatNeverLedStopsWithoutWork(t *testing.T) {
	w := &worker{started: make(chan struct{})}
	now := metav1.Now()
	lock := &memoryLock{busy: w.isBusy, record: &resourcelock.LeaderElectionRecord{
		HolderIdentity: "another", LeaseDurationSeconds: 3600, AcquireTime: now, RenewTime: now,
	}}
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		result <- lead(ctx, lock, fast, leaderelection.NewLeaderHealthzAdaptor(time.Second), newFence(), w.work)
	}()
	stop()
	if err := <-result; err != nil {
		t.Errorf("a stop that was asked for is no error, got %v", err)
	}
	if lock.record.HolderIdentity != "another" {
		t.Errorf("the lease of %q was touched", "another")
	}
	select {
	case <-w.started:
		t.Error("work began without leadership")
	default:
	}
}

func TestHealthEndsWithTheLeaseOfALeaderWhoseWorkDoesNotStop(t *testing.T) {
	lock := &memoryLock{busy: func() bool { return true }}
	watchDog := leaderelection.NewLeaderHealthzAdaptor(0)
	started, stuck := make(chan struct{}), make(chan struct{})
	result := make(chan error)
	go func() {
		result <- lead(t.Context(), lock, fast, watchDog, newFence(), func(context.Context) { close(started); <-stuck })
	}()
	<-started
	if err := watchDog.Check(nil); err != nil {
		t.Errorf("a leader with its lease is not healthy: %v", err)
	}
	lock.breakDown()
	deadline := time.After(10 * time.Second)
	for watchDog.Check(nil) == nil {
		select {
		case <-deadline:
			t.Fatal("a process that holds on to its work without a lease is called healthy")
		case <-time.After(20 * time.Millisecond):
		}
	}
	close(stuck)
	if err := <-result; !errors.Is(err, errLeadershipLost) {
		t.Errorf("error %v, want %v", err, errLeadershipLost)
	}
}
