package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

// errLeadershipLost ends the process: another replica may be at work already.
var errLeadershipLost = errors.New("leadership lost: the lease could not be renewed in time")

// newLock is the lease that replicas compete for. Without its namespace they would
// wait for ever, so that is an error.
func newLock(ctx context.Context, c *clients, le componentbaseconfig.LeaderElectionConfiguration) (resourcelock.Interface, error) {
	_, err := c.election.CoreV1().Namespaces().Get(ctx, le.ResourceNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("--leader-elect-resource-namespace: namespace %q does not exist: create it, name another one, or run without leader election (--leader-elect=false)",
			le.ResourceNamespace)
	} // any other answer, such as no right to ask, says nothing about it
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host's name: %w", err)
	}
	lock, err := resourcelock.New(le.ResourceLock, le.ResourceNamespace, le.ResourceName,
		c.election.CoreV1(), c.election.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("make the leader election lock: %w", err)
	}
	return lock, nil
}

// lead runs work while this replica is the leader. When ctx ends, work is stopped
// first and the lease given back after it, so that there is never a second leader
// beside workers that are still busy; client-go's own ReleaseOnCancel would give it
// back at once. The fence is open while the lease is held.
func lead(ctx context.Context, lock resourcelock.Interface, le componentbaseconfig.LeaderElectionConfiguration,
	watchDog *leaderelection.HealthzAdaptor, fence *fence, work func(context.Context)) error {
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElecting()
	lock = &watchedLock{Interface: lock, fence: fence, lost: stopElecting}
	var started atomic.Bool
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, WatchDog: watchDog,
		LeaseDuration: le.LeaseDuration.Duration, RenewDeadline: le.RenewDeadline.Duration, RetryPeriod: le.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				defer close(worked)
				defer stopElecting()
				leading, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				work(leading)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	watchDog.SetLeaderElection(elector)
	defer context.AfterFunc(ctx, func() {
		if !started.Load() {
			stopElecting()
		}
	})()
	elector.Run(electing)
	if started.Load() {
		<-worked
	}
	if ctx.Err() == nil {
		return errLeadershipLost
	}
	if elector.IsLeader() {
		release(context.WithoutCancel(ctx), lock, le.RenewDeadline.Duration)
	}
	return nil
}

// release gives the lease back, so that another replica need not wait for its end.
// It is a courtesy: without it the lease runs out by itself.
func release(ctx context.Context, lock resourcelock.Interface, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err == nil && record.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not give the lease back; it runs out by itself", "lease", lock.Describe())
	}
}
