package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/verbosity"
)

// Defaults of Config.
const (
	// DefaultBaseDelay and DefaultMaxDelay bound the backoff of one key. A
	// failure that lasts costs about twenty tries in its first five minutes, and
	// its end is noticed within a minute.
	DefaultBaseDelay = 5 * time.Millisecond
	DefaultMaxDelay  = 45 * time.Second
	// DefaultStuckAfter is generous: a sync makes a handful of API calls, each of
	// which may wait for the client's own rate limit.
	DefaultStuckAfter = 5 * time.Minute
	// DefaultDrainTimeout stays within the five seconds that lie, with the usual
	// settings of leader election, between giving up a lease that could not be
	// renewed and the moment another process may take it.
	DefaultDrainTimeout = 4 * time.Second
)

// maxDelay cuts every wait. See "A wake-up is a hint" in the package comment.
const maxDelay = time.Hour

// Result is what a sync asks for besides an error.
type Result struct {
	// After, if positive, asks for another sync after this time, or earlier. It
	// is ignored together with errors that are retried anyway.
	After time.Duration
}

// SyncFunc brings the object of one key up to date. It is never called twice
// at the same time for the same key. On shutdown its context stays alive for
// Config.DrainTimeout, so that a sync under way can finish its writes.
type SyncFunc func(ctx context.Context, key cache.ObjectName) (Result, error)

// Config describes a queue. Name, Sync and Clock are required.
type Config struct {
	// Name labels metrics, log lines and the health check.
	Name metrics.Queue
	Sync SyncFunc
	// Background says which keys are in no hurry: they give way to the others, three
	// out of four times. It is asked when a key is added, and must answer at once and
	// from memory. Without it all keys are alike.
	Background func(cache.ObjectName) bool
	// Clock drives delays and durations.
	Clock clock.WithTicker
	// BaseDelay and MaxDelay bound the backoff of one key.
	BaseDelay, MaxDelay time.Duration
	// StuckAfter is how long one sync may take before the queue is unhealthy.
	StuckAfter time.Duration
	// DrainTimeout is how long syncs under way may go on after the end of Run's
	// context before theirs is canceled as well.
	DrainTimeout time.Duration
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// Object is the key in log lines under which the object of a sync is named.
	Object string
}

// DefaultObject is what the queues of this program hold, almost all of them.
const DefaultObject = "trainJob"

// Queue is a set of keys to be synced, and the workers that do it.
type Queue struct {
	config  Config
	work    workqueue.TypedDelayingInterface[cache.ObjectName]
	backoff workqueue.TypedRateLimiter[cache.ObjectName]

	mu   sync.Mutex
	busy map[cache.ObjectName]time.Time // keys being synced, since when
}

// New checks the configuration and returns a queue that accepts keys. Nothing
// is synced before Run. A queue that was made must be run, if only with a
// context that has ended, for its timers to be released.
func New(config Config) (*Queue, error) {
	if err := complete(&config); err != nil {
		return nil, fmt.Errorf("queue %q: %w", config.Name, err)
	}
	return &Queue{
		config: config,
		work: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
			Name:  string(config.Name),
			Clock: newOnward(config.Clock),
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{
				Name:  string(config.Name),
				Clock: config.Clock,
				Queue: newLanes(config.Background),
			}),
		}),
		// Per key only. The default limiter of client-go adds a bucket shared by
		// all keys, in which a few failing objects hold up the others.
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](config.BaseDelay, config.MaxDelay),
		busy:    map[cache.ObjectName]time.Time{},
	}, nil
}

// complete fills in the defaults and reports everything that is wrong.
func complete(config *Config) error {
	var errs []error
	if config.Name == "" {
		errs = append(errs, errors.New("no name"))
	}
	if config.Sync == nil {
		errs = append(errs, errors.New("no sync function"))
	}
	if config.Clock == nil {
		errs = append(errs, errors.New("no clock"))
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		ifNot time.Duration
	}{
		{"base delay", &config.BaseDelay, DefaultBaseDelay},
		{"maximum delay", &config.MaxDelay, DefaultMaxDelay},
		{"stuck-after time", &config.StuckAfter, DefaultStuckAfter},
		{"drain timeout", &config.DrainTimeout, DefaultDrainTimeout},
	} {
		if *d.value < 0 {
			errs = append(errs, fmt.Errorf("negative %s %s", d.name, *d.value))
		}
		if *d.value == 0 {
			*d.value = d.ifNot
		}
	}
	if config.BaseDelay > config.MaxDelay {
		errs = append(errs, fmt.Errorf("base delay %s is longer than the maximum delay %s", config.BaseDelay, config.MaxDelay))
	}
	if config.Object == "" {
		config.Object = DefaultObject
	}
	if config.Metrics == nil {
		config.Metrics = metrics.New()
	}
	return errors.Join(errs...)
}

// Name is the name given in Config.
func (q *Queue) Name() string { return string(q.config.Name) }

// Len is the number of keys that wait for a worker, delayed ones not counted.
func (q *Queue) Len() int { return q.work.Len() }

// Add asks for a sync of the key as soon as a worker is free. A key already
// waiting is not added twice; one being synced is synced once more afterwards.
func (q *Queue) Add(key cache.ObjectName) { q.work.Add(key) }

// Run syncs keys with the given number of workers (at least one) until ctx
// ends. It then lets syncs under way finish, drops the keys not yet begun (the
// next process finds them in its first list) and returns when the last worker
// has. A queue runs once.
func (q *Queue) Run(ctx context.Context, workers int) {
	logger := verbosity.LoggerOf(ctx, string(q.config.Name))
	logger = logger.WithValues("queue", q.config.Name)
	syncCtx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logger))
	defer cancel()

	var running sync.WaitGroup
	for range max(workers, 1) {
		running.Go(func() {
			for q.next(syncCtx, ctx.Done()) {
			}
		})
	}
	logger.V(2).Info("Started workers", "count", max(workers, 1))

	<-ctx.Done()
	q.work.ShutDown()
	drained := make(chan struct{})
	go func() {
		running.Wait()
		close(drained)
	}()
	timeout := q.config.Clock.NewTimer(q.config.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-drained:
	case <-timeout.C():
		logger.Info("Canceling syncs that did not finish in time", "timeout", q.config.DrainTimeout)
		cancel()
		<-drained
	}
	logger.V(2).Info("Stopped workers")
}

// next takes one key through its sync, and reports whether the worker goes on.
func (q *Queue) next(ctx context.Context, stop <-chan struct{}) bool {
	key, shutdown := q.work.Get()
	if shutdown {
		return false
	}
	defer q.work.Done(key)
	select {
	case <-stop:
		return true // the queue hands out what is left; take it and drop it
	default:
	}

	logger := klog.FromContext(ctx).WithValues(q.config.Object, klog.KRef(key.Parts()))
	start := q.begin(key)
	defer q.end(key)
	result, err := q.sync(klog.NewContext(ctx, logger), key)
	took := q.config.Clock.Since(start)
	if err == nil {
		q.config.Metrics.SyncDone(q.config.Name, metrics.ResultSuccess, took)
		q.settle(key, result)
		return true
	}
	v := classify(err, ctx.Err() != nil)
	q.config.Metrics.SyncDone(q.config.Name, v.class.result(), took)
	q.settleError(logger, key, result, v, err)
	return true
}

// sync calls the sync function and turns a panic into an error, so that one
// object that trips a bug does not take the jobs of everybody else with it.
func (q *Queue) sync(ctx context.Context, key cache.ObjectName) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			q.config.Metrics.SyncPanicked(q.config.Name)
			result, err = Result{}, &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return q.config.Sync(ctx, key)
}

// settle follows up on a sync that has nothing to retry.
func (q *Queue) settle(key cache.ObjectName, result Result) {
	q.backoff.Forget(key)
	if result.After > 0 {
		q.addAfter(key, result.After)
	}
}

// settleError turns the verdict on an error into queue verbs and a log line.
func (q *Queue) settleError(logger klog.Logger, key cache.ObjectName, result Result, v verdict, err error) {
	switch v.class {
	case classCanceled:
		// Neither news nor a reason to try again.
	case classPermanent:
		logger.V(2).Info("Not retrying before something changes", "err", err)
		q.settle(key, result)
	case classTerminating:
		logger.V(4).Info("Namespace is going away", "err", err)
		q.backoff.Forget(key)
	case classConflict:
		logger.V(4).Info("Cache is behind, retrying", "err", err)
		q.backoff.Forget(key)
		q.addAfter(key, v.after)
	case classDelayed:
		logger.V(2).Info("Retrying later", "after", v.after, "err", err)
		q.backoff.Forget(key)
		q.addAfter(key, v.after)
	case classRetry:
		logger.V(2).Info("Retrying", "failures", q.backoff.NumRequeues(key)+1, "err", err)
		q.retry(key, v.after)
	case classRefused:
		// It lasts until somebody does something: the first time, and ever more rarely, is enough.
		if failures := q.backoff.NumRequeues(key) + 1; failures&(failures-1) == 0 {
			logger.Error(err, "Sync was refused", "failures", failures)
		}
		q.retry(key, v.after)
	case classError:
		logger.Error(err, "Sync failed", "failures", q.backoff.NumRequeues(key)+1)
		q.retry(key, v.after)
	case classPanic:
		logPanic(logger, err)
		q.retry(key, v.after)
	}
}

func logPanic(logger klog.Logger, err error) {
	var panicked *panicError
	if errors.As(err, &panicked) {
		logger.Error(err, "Recovered from a panic", "panic", fmt.Sprint(panicked.value), "stack", string(panicked.stack))
	}
}

// retry counts a failure and adds the key after the backoff that it has
// reached, or after atLeast if that is longer.
func (q *Queue) retry(key cache.ObjectName, atLeast time.Duration) {
	q.addAfter(key, max(q.backoff.When(key), atLeast))
}

func (q *Queue) addAfter(key cache.ObjectName, d time.Duration) {
	q.work.AddAfter(key, min(d, maxDelay))
}
