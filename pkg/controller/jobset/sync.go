package jobset

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// sync brings the JobSet to what the job wants and the job's status to what the
// JobSet says.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.status.Forget(key)
		c.warned.forget(key)
		c.helpers.released.forget(key)
		c.created.Drop(key) // whose event may have come before it was put
		return queue.Result{}, nil
	}
	if err != nil || !trainjob.ManagedByUs(job) || trainjob.External(job) {
		return queue.Result{}, err // whatever exists of an external job is its builder's
	}
	now := c.clock.Now()
	seen, err := c.gather(key, job)
	if err != nil {
		return queue.Result{}, err
	}
	if trainjob.Finished(job) {
		return c.finish(ctx, key, job, seen, now)
	}
	if trainjob.Deadline(job, c.deadlineFrom, now).Kind == lifetime.Expired {
		return queue.Result{}, nil // the lifecycle controller ends it
	}
	if seen.own(job) == nil && trainjob.Inherited(job) {
		// Its first status of ours must not be written past a JobSet made a moment ago.
		if err := c.lookLive(ctx, key, job, &seen); err != nil {
			return queue.Result{}, err
		}
	}
	if seen.own(job) == nil && seen.snapshot == nil {
		return queue.Result{}, nil // the snapshot controller has the word
	}
	if wait := trainjob.AwaitsPreflight(job, seen.own(job), now); wait > 0 {
		return queue.Result{After: wait}, nil // the report's event comes sooner
	}
	c.warn(job, seen)
	done := c.apply(ctx, key, job, seen)
	result, err := c.report(ctx, job, done.observed, now)
	if err == nil && result.After == 0 {
		c.countRefusal(job, done.observed.Blocked)
	}
	if err = errors.Join(err, done.err); err != nil {
		return queue.Result{}, err
	}
	return soonest(soonest(result, done.result), c.trust(key, job, seen)), nil
}

// trust is how long to go without an event by a note, one that was used or was just put:
// should what it is of be gone already, nobody is left to say so.
func (c *Controller) trust(key cache.ObjectName, job *trainer.TrainJob, seen observation) queue.Result {
	if seen.noted || c.noted(key, job) != nil {
		return queue.Result{After: informer.NoteLifetime}
	}
	return queue.Result{}
}

// noted is the JobSet of the job that we created or read ourselves a moment ago, nil if
// the cache is as good.
func (c *Controller) noted(key cache.ObjectName, job *trainer.TrainJob) *jobset.JobSet {
	if noted, ok := c.created.Get(key); ok && trainjob.OwnershipOf(job, noted) == trainjob.Ours {
		return noted
	}
	return nil
}

// gather reads what the decision needs from the caches.
func (c *Controller) gather(key cache.ObjectName, job *trainer.TrainJob) (observation, error) {
	var seen observation
	js, err := c.jobSets.JobSets(key.Namespace).Get(key.Name)
	switch {
	case err == nil:
		seen.jobSet = js
	case !apierrors.IsNotFound(err):
		return seen, err
	}
	// What we created ourselves a moment ago is newer than what the cache has.
	if noted := c.noted(key, job); noted != nil && seen.own(job) == nil {
		seen.jobSet, seen.noted = noted, true
	}
	cm, err := c.snapshots.ConfigMaps(key.Namespace).Get(runtimesnapshot.Name(key.Name))
	switch {
	case err == nil && trainjob.OwnershipOf(job, cm) == trainjob.Ours:
		seen.snapshot = cm
	case err != nil && !apierrors.IsNotFound(err):
		return seen, err
	}
	return seen, nil
}

// lookLive asks the API server for a JobSet that the cache does not show. A job taken over
// from another controller may have got it from that one's last write.
func (c *Controller) lookLive(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen *observation) error {
	js, err := c.writer.get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read JobSet: %w", err)
	}
	seen.jobSet = js
	if trainjob.OwnershipOf(job, js) == trainjob.Ours {
		c.created.Put(key, js)
		seen.noted = true
	}
	return nil
}

// finish handles a job that is Complete or Failed: a JobSet that still runs after its
// job's deadline goes, so does the group it was scheduled in, and the counters follow
// what is left.
func (c *Controller) finish(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation, now time.Time) (queue.Result, error) {
	own := seen.own(job)
	var again queue.Result
	var failed error
	if own != nil && own.DeletionTimestamp.IsZero() && trainjob.JobSetEnd(own) == nil && trainjob.FailedFor(job, trainer.ReasonDeadlineExceeded) {
		again, failed = c.deleteEnded(ctx, key, own)
	}
	released := c.releasePodGroup(ctx, key, job, seen)
	result, err := c.report(ctx, job, trainjob.Observed{JobSet: own}, now)
	return soonest(result, again), errors.Join(failed, released, err)
}

// report writes what the status must be after what was observed.
func (c *Controller) report(ctx context.Context, job *trainer.TrainJob, seen trainjob.Observed, now time.Time) (queue.Result, error) {
	wait, err := c.status.Report(ctx, job, seen, now)
	return queue.Result{After: wait}, err
}

// countRefusal counts a snapshot that exists and cannot be used. What the API server
// says here is about other objects.
func (c *Controller) countRefusal(job *trainer.TrainJob, cause *trainjob.Cause) {
	refusal, ok := operations.SnapshotRefusal(job, cause)
	if ok && refusal != metrics.RefusalCreation {
		c.metrics.SnapshotRefused(refusal)
	}
}

// soonest is the earlier of two wishes to come back; zero is no wish.
func soonest(a, b queue.Result) queue.Result {
	if a.After == 0 || (b.After > 0 && b.After < a.After) {
		return b
	}
	return a
}
