package preflight

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/trainjob"
)

// sync writes the worst report of a job into its status, and tells of those that are new.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.status.Forget(key)
		c.events.forget(key)
		return queue.Result{}, nil
	}
	if err != nil || !trainjob.ManagedByUs(job) || trainjob.External(job) || trainjob.Finished(job) {
		return queue.Result{}, err
	}
	all, err := c.gather(job)
	if err != nil || len(all) == 0 {
		return queue.Result{}, err
	}
	// First of all: the job's next pods may be on their way.
	isolated := c.isolate(ctx, all)
	return c.report(ctx, key, job, all, isolated)
}

// report writes what is new to the job's status, and then its events.
func (c *Controller) report(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, all []ranked, failed error) (queue.Result, error) {
	nodes := int32(1)
	if job.Status.Nodes != nil {
		nodes = *job.Status.Nodes
	}
	wait, err := c.status.Write(ctx, job, trainjob.WithPreflight(job, worst(all, nodes)), c.clock.Now())
	if apierrors.IsNotFound(err) {
		return queue.Result{}, failed // deleted in the meantime
	}
	if err != nil || wait > 0 {
		return queue.Result{After: wait}, errors.Join(failed, err)
	}
	for _, r := range c.events.news(key, job, all) {
		operations.Emit(c.recorder, job, corev1.EventTypeWarning, r.reason, r.told())
	}
	return queue.Result{}, failed
}

// gather reads the reports of the job's pods out of the cache.
func (c *Controller) gather(job *trainer.TrainJob) ([]ranked, error) {
	js, err := c.jobSets.JobSets(job.Namespace).Get(job.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil || trainjob.OwnershipOf(job, js) != trainjob.Ours {
		return nil, err
	}
	found, err := c.pods.GetIndexer().ByIndex(byJob, cache.MetaObjectToName(job).String())
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, object := range found {
		if pod, ok := object.(*corev1.Pod); ok && ofJobSet(pod, js) {
			pods = append(pods, pod)
		}
	}
	return reports(pods), nil
}

// isolate marks the nodes at fault, where that is switched on.
func (c *Controller) isolate(ctx context.Context, all []ranked) error {
	if c.wards == nil {
		return nil
	}
	var errs []error
	for _, r := range all {
		if r.outcome == report.Reschedule && r.faulty && r.node != "" {
			errs = append(errs, c.wards.mark(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// told remembers which reports have had their event. After a restart of this process those
// up to the time in the job's status count as told.
type told struct {
	mu   sync.Mutex
	jobs map[cache.ObjectName]map[types.UID]time.Time
}

func newTold() *told { return &told{jobs: map[cache.ObjectName]map[types.UID]time.Time{}} }

// news are the reports worth an event that had none. Pods that are gone are forgotten.
func (t *told) news(key cache.ObjectName, job *trainer.TrainJob, all []ranked) []ranked {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.jobs[key]
	now := map[types.UID]time.Time{}
	var fresh []ranked
	for _, r := range all {
		if !r.outcome.Worse(report.Pass) {
			continue
		}
		now[r.pod] = r.finished
		last, seen := before[r.pod]
		if seen && !r.finished.After(last) || !known && job.Status.Preflight != nil && !r.finished.After(job.Status.Preflight.Time.Time) {
			continue
		}
		fresh = append(fresh, r)
	}
	t.jobs[key] = now
	return fresh
}

func (t *told) forget(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.jobs, key)
}
