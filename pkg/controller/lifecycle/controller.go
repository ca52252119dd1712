package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned/typed/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/trainjob"
)

// Config is what the controller works with.
type Config struct {
	Client   trainerclient.TrainJobsGetter
	Jobs     trainerinformers.TrainJobInformer
	JobSets  jobsetclient.JobSetsGetter
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	Metrics  *metrics.Metrics
	// DeadlineFrom is what deadlines count from, the same for all controllers.
	DeadlineFrom trainjob.DeadlineFrom
}

// Controller enforces deadlines and TTLs.
type Controller struct {
	client   trainerclient.TrainJobsGetter
	jobs     trainerlisters.TrainJobLister
	jobSets  jobsetclient.JobSetsGetter
	status   *operations.StatusWriter
	recorder record.EventRecorder
	clock    clock.WithTicker
	metrics  *metrics.Metrics

	deadlineFrom trainjob.DeadlineFrom

	deadlines *queue.Queue
	ttls      *queue.Queue
	// working is true while Run is.
	working atomic.Bool
	// handlers of the events that wake a job, by their source.
	handlers map[cache.SharedIndexInformer]func(any)
}

// New returns a controller that does nothing before Run.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		client: cfg.Client, jobs: cfg.Jobs.Lister(), jobSets: cfg.JobSets,
		status:   operations.NewStatusWriter(cfg.Client, cfg.Recorder).Measuring(cfg.Metrics),
		recorder: cfg.Recorder, clock: cfg.Clock, metrics: cfg.Metrics,
		deadlineFrom: cfg.DeadlineFrom,
	}
	var err error
	if c.deadlines, err = queue.New(queue.Config{Name: metrics.QueueDeadline, Sync: c.syncDeadline, Clock: cfg.Clock, Metrics: cfg.Metrics}); err != nil {
		return nil, err
	}
	if c.ttls, err = queue.New(queue.Config{Name: metrics.QueueTTL, Sync: c.syncTTL, Clock: cfg.Clock, Metrics: cfg.Metrics}); err != nil {
		return nil, err
	}
	c.handlers = map[cache.SharedIndexInformer]func(any){cfg.Jobs.Informer(): c.enqueue}
	cfg.Metrics.CountTimers(c.waiting)
	cfg.Metrics.MeasureOverdue(c.overdue)
	return c, nil
}

// enqueue gives a job to the one queue that has something to do for it.
func (c *Controller) enqueue(object any) {
	key, ok := informer.Key(object)
	if !ok {
		return
	}
	job, ok := object.(*trainer.TrainJob)
	if !ok {
		return // deleted: nothing is left to do
	}
	switch timer, _ := c.timerOf(job); timer {
	case metrics.TimerDeadline:
		c.deadlines.Add(key)
	case metrics.TimerTTL:
		c.ttls.Add(key)
	}
}

// timerOf is the timer that runs for a job, and how it stands; "" if none does.
func (c *Controller) timerOf(job *trainer.TrainJob) (metrics.Timer, lifetime.Verdict) {
	now, timer, verdict := c.clock.Now(), metrics.Timer(""), lifetime.Verdict{Kind: lifetime.Never}
	switch {
	case !trainjob.ManagedByUs(job):
	case !trainjob.Finished(job):
		timer, verdict = metrics.TimerDeadline, trainjob.Deadline(job, c.deadlineFrom, now)
	case !trainjob.BeingDeleted(job):
		timer, verdict = metrics.TimerTTL, trainjob.TTL(job, now)
	}
	if verdict.Kind == lifetime.Never {
		return "", verdict
	}
	return timer, verdict
}

// waiting counts the jobs that each timer runs for, while this controller is at work.
func (c *Controller) waiting() map[metrics.Timer]int {
	counts := map[metrics.Timer]int{}
	for _, job := range c.known() {
		timer, _ := c.timerOf(job)
		counts[timer]++
	}
	return counts
}

// overdue measures for how long the timer of each kind that is overdue for longest has
// been so, while this controller is at work.
func (c *Controller) overdue() map[metrics.Timer]time.Duration {
	longest := map[metrics.Timer]time.Duration{}
	for _, job := range c.known() {
		if timer, verdict := c.timerOf(job); verdict.Kind == lifetime.Expired {
			longest[timer] = max(longest[timer], verdict.Late)
		}
	}
	return longest
}

// known are the jobs in the cache, and none while this controller is not at work.
func (c *Controller) known() []*trainer.TrainJob {
	if !c.working.Load() {
		return nil
	}
	jobs, err := c.jobs.List(labels.Everything())
	if err != nil {
		return nil // a lister of a cache has no errors
	}
	return jobs
}

// Queues of this controller, for health checks.
func (c *Controller) Queues() []*queue.Queue {
	return []*queue.Queue{c.deadlines, c.ttls}
}

// Run works until ctx ends, with `workers` workers on each queue. Only then are events
// listened to, beginning with all that the informer holds: the queues of a replica that
// waits would only ever grow.
func (c *Controller) Run(ctx context.Context, workers int) {
	if err := informer.AddHandlers(c.handlers); err != nil {
		klog.FromContext(ctx).Error(err, "The lifecycle controller cannot listen") // the informers have been stopped
		return
	}
	c.working.Store(true)
	defer c.working.Store(false)
	var running sync.WaitGroup
	for _, q := range c.Queues() {
		running.Go(func() { q.Run(ctx, workers) })
	}
	running.Wait()
}

// get reads a job from the cache; nil if it is gone or not ours to handle.
func (c *Controller) get(key cache.ObjectName) (*trainer.TrainJob, error) {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.status.Forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !trainjob.ManagedByUs(job) {
		return nil, nil
	}
	return job, nil
}

// syncDeadline fails a job whose deadline has passed. The cached job is good enough to
// decide on: the write carries its resourceVersion and goes through only if that is
// still the present one.
func (c *Controller) syncDeadline(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.get(key)
	if err != nil || job == nil || trainjob.Finished(job) {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	verdict := trainjob.Deadline(job, c.deadlineFrom, now)
	if verdict.Kind != lifetime.Expired {
		return queue.Result{After: verdict.Wait}, nil
	}
	seen, err := c.observe(ctx, job, now)
	if err != nil {
		return queue.Result{}, err
	}
	next := trainjob.Next(job, seen, now)
	_, err = c.status.Write(ctx, job, next, now)
	c.status.Forget(key) // there is no next write
	if apierrors.IsNotFound(err) {
		return queue.Result{}, nil // deleted in the meantime: its event is on the way
	}
	if err != nil {
		return queue.Result{}, err
	}
	if trainjob.FailedFor(&trainer.TrainJob{Status: *next}, trainer.ReasonDeadlineExceeded) {
		c.metrics.DeadlineEnforced(verdict.Late + c.clock.Since(now)) // until it was written
	}
	return queue.Result{}, nil
}

// observe looks at the JobSet too: should it have ended, that end is the job's, and
// not the deadline. It looks live, because what is decided here cannot be taken back: a
// cache can lag behind by half a minute while writes work.
func (c *Controller) observe(ctx context.Context, job *trainer.TrainJob, now time.Time) (trainjob.Observed, error) {
	start, resumed := trainjob.DeadlineStart(job, c.deadlineFrom, now)
	began := "its creation"
	if resumed {
		began = "it was resumed"
	}
	seen := trainjob.Observed{Failure: &trainjob.Cause{
		Reason: trainer.ReasonDeadlineExceeded,
		Message: fmt.Sprintf("the job was not finished %d seconds (activeDeadlineSeconds) after %s at %s",
			*trainjob.Limits(job).ActiveDeadlineSeconds, began, start.UTC().Format(time.RFC3339)),
	}}
	if trainjob.External(job) {
		return seen, nil // a JobSet of that name would be its builder's, which tells of its end itself
	}
	js, err := c.jobSets.JobSets(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return seen, nil
	case err != nil:
		return seen, fmt.Errorf("read JobSet: %w", err)
	}
	if trainjob.OwnershipOf(job, js) == trainjob.Ours {
		seen.JobSet = js
	}
	return seen, nil
}

// syncTTL deletes a finished job whose time to live has passed: exactly the object that
// the verdict was made on.
func (c *Controller) syncTTL(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.get(key)
	if err != nil || job == nil || trainjob.BeingDeleted(job) {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	verdict := trainjob.TTL(job, now)
	if verdict.Kind != lifetime.Expired {
		return queue.Result{After: verdict.Wait}, nil
	}
	err = operations.DeleteTrainJob(ctx, c.client, job)
	if apierrors.IsNotFound(err) {
		return queue.Result{}, nil
	}
	if err != nil {
		return queue.Result{}, fmt.Errorf("delete TrainJob: %w", err)
	}
	c.metrics.TTLEnforced(verdict.Late + c.clock.Since(now)) // until it was done
	operations.Emit(c.recorder, job, corev1.EventTypeNormal, operations.EventTTLExpired,
		fmt.Sprintf("Deleted %d seconds (ttlSecondsAfterFinished) after it finished", *trainjob.Limits(job).TTLSecondsAfterFinished))
	return queue.Result{}, nil
}
