package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	jobsetlisters "sigs.k8s.io/jobset/client-go/listers/jobset/v1alpha2"

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
	JobSets  jobsetlisters.JobSetLister
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	Metrics  *metrics.Metrics
}

// Controller enforces deadlines and TTLs.
type Controller struct {
	client   trainerclient.TrainJobsGetter
	jobs     trainerlisters.TrainJobLister
	jobSets  jobsetlisters.JobSetLister
	status   *operations.StatusWriter
	recorder record.EventRecorder
	clock    clock.WithTicker
	metrics  *metrics.Metrics

	deadlines *queue.Queue
	ttls      *queue.Queue
	// handlers of the events that wake a job, by their source.
	handlers map[cache.SharedIndexInformer]func(any)
}

// New returns a controller that does nothing before Run.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		client: cfg.Client, jobs: cfg.Jobs.Lister(), jobSets: cfg.JobSets,
		status:   operations.NewStatusWriter(cfg.Client, cfg.Recorder).Measuring(cfg.Metrics),
		recorder: cfg.Recorder, clock: cfg.Clock, metrics: cfg.Metrics,
	}
	var err error
	if c.deadlines, err = queue.New(queue.Config{Name: metrics.QueueDeadline, Sync: c.syncDeadline, Clock: cfg.Clock, Metrics: cfg.Metrics}); err != nil {
		return nil, err
	}
	if c.ttls, err = queue.New(queue.Config{Name: metrics.QueueTTL, Sync: c.syncTTL, Clock: cfg.Clock, Metrics: cfg.Metrics}); err != nil {
		return nil, err
	}
	c.handlers = map[cache.SharedIndexInformer]func(any){cfg.Jobs.Informer(): c.enqueue}
	return c, nil
}

// enqueue gives a job to the one queue that has something to do for it.
func (c *Controller) enqueue(object any) {
	key, ok := informer.Key(object)
	if !ok {
		return
	}
	job, ok := object.(*trainer.TrainJob)
	switch {
	case !ok: // deleted: nothing is left to do
	case trainjob.Finished(job):
		if trainjob.Limits(job).TTLSecondsAfterFinished != nil {
			c.ttls.Add(key)
		}
	case trainjob.Limits(job).ActiveDeadlineSeconds != nil:
		c.deadlines.Add(key)
	}
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

// syncDeadline fails a job whose deadline has passed.
func (c *Controller) syncDeadline(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.get(key)
	if err != nil || job == nil || trainjob.Finished(job) {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	if verdict := trainjob.Deadline(job, now); verdict.Kind != lifetime.Expired {
		return queue.Result{After: verdict.Wait}, nil
	}
	job, err = operations.LiveTrainJob(ctx, c.client, job)
	if err != nil || job == nil || trainjob.Finished(job) {
		return queue.Result{}, err
	}
	verdict := trainjob.Deadline(job, now)
	if verdict.Kind != lifetime.Expired {
		return queue.Result{After: verdict.Wait}, nil
	}
	seen, err := c.observe(job)
	if err != nil {
		return queue.Result{}, err
	}
	next := trainjob.Next(job, seen, now)
	if _, err := c.status.Write(ctx, job, next, now); err != nil {
		return queue.Result{}, err
	}
	c.status.Forget(key) // there is no next write
	if trainjob.FailedFor(&trainer.TrainJob{Status: *next}, trainer.ReasonDeadlineExceeded) {
		c.metrics.DeadlineEnforced(verdict.Late)
	}
	return queue.Result{}, nil
}

// observe looks at the JobSet too: should it have ended, that end is the job's, and
// not the deadline.
func (c *Controller) observe(job *trainer.TrainJob) (trainjob.Observed, error) {
	seconds := *trainjob.Limits(job).ActiveDeadlineSeconds
	seen := trainjob.Observed{Failure: &trainjob.Cause{
		Reason: trainer.ReasonDeadlineExceeded,
		Message: fmt.Sprintf("the job was not finished %d seconds (activeDeadlineSeconds) after its creation at %s",
			seconds, job.CreationTimestamp.UTC().Format(time.RFC3339)),
	}}
	js, err := c.jobSets.JobSets(job.Namespace).Get(job.Name)
	switch {
	case apierrors.IsNotFound(err):
		return seen, nil
	case err != nil:
		return seen, err
	}
	if trainjob.OwnershipOf(job, js) == trainjob.Ours {
		seen.JobSet = js
	}
	return seen, nil
}

// syncTTL deletes a finished job whose time to live has passed.
func (c *Controller) syncTTL(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.get(key)
	if err != nil || job == nil || trainjob.BeingDeleted(job) {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	if verdict := trainjob.TTL(job, now); verdict.Kind != lifetime.Expired {
		return queue.Result{After: verdict.Wait}, nil
	}
	job, err = operations.LiveTrainJob(ctx, c.client, job)
	if err != nil || job == nil || trainjob.BeingDeleted(job) {
		return queue.Result{}, err
	}
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
	c.metrics.TTLEnforced(verdict.Late)
	operations.Emit(c.recorder, job, corev1.EventTypeNormal, operations.EventTTLExpired,
		fmt.Sprintf("Deleted %d seconds (ttlSecondsAfterFinished) after it finished", *trainjob.Limits(job).TTLSecondsAfterFinished))
	return queue.Result{}, nil
}
