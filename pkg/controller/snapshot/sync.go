package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// sync sees to it that the job has its snapshot, or says why not.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.status.Forget(key)
		c.opaque.forget(key)
		c.created.Drop(key) // whose event may have come before it was put
		return queue.Result{}, nil
	}
	if err != nil {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	if !c.wanted(job, now) {
		c.opaque.forget(key)
		return queue.Result{}, nil
	}
	seen, err := c.gather(ctx, key, job, now)
	if err != nil {
		return queue.Result{}, err
	}
	plan := decide(job, seen)
	var failed error
	if seen.existing == nil && c.hidden(job, plan) {
		if cause, err := c.examine(ctx, key, job, runtimesnapshot.Name(job.Name)); !apierrors.IsNotFound(err) {
			plan.create, plan.blocked, plan.failure, failed = nil, cause, nil, err
		}
	}
	if plan.create != nil {
		plan.blocked, failed = c.create(ctx, key, job, plan.create)
	}
	wait := c.trust(key, job, seen)
	if plan.blocked != nil && seen.opaque.runtime != nil {
		seen.opaque = c.opaque.hold(key, job, *plan.blocked, now)
	}
	var next time.Duration
	switch {
	case plan.blocked != nil || plan.failure != nil:
		c.warn(job, seen, plan)
		next, err = c.report(ctx, job, plan, now)
	case trainjob.External(job) && seen.existing != nil:
		next, err = c.handOver(ctx, job, seen, now)
	}
	if err = errors.Join(err, failed); err != nil {
		return queue.Result{}, err
	}
	return queue.Result{After: soonest(next, soonest(wait, recheck(job, seen, plan, now)))}, nil
}

// soonest is the earlier of two times to come back after; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// trust is how long to go without an event by a note, one that was used or was just put:
// should what it is of be gone already, nobody is left to say so.
func (c *Controller) trust(key cache.ObjectName, job *trainer.TrainJob, seen observation) time.Duration {
	if seen.noted || c.noted(key, job) != nil {
		return informer.NoteLifetime
	}
	return 0
}

// noted is the snapshot of the job that we created or read ourselves a moment ago, nil if
// the cache is as good.
func (c *Controller) noted(key cache.ObjectName, job *trainer.TrainJob) *corev1.ConfigMap {
	if noted, ok := c.created.Get(key); ok && noted.GetUID() != "" && trainjob.OwnershipOf(job, noted) == trainjob.Ours {
		return noted
	}
	return nil
}

// wanted says whether a job gets a snapshot at all. A job whose deadline has passed
// is left to end: nothing is created for it.
func (c *Controller) wanted(job *trainer.TrainJob, now time.Time) bool {
	return trainjob.ManagedByUs(job) && !trainjob.Finished(job) && !trainjob.BeingDeleted(job) &&
		trainjob.Deadline(job, c.deadlineFrom, now).Kind != lifetime.Expired
}

// gather reads what the decision needs, from the caches but for opaque runtimes.
func (c *Controller) gather(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, now time.Time) (observation, error) {
	var seen observation
	cm, err := c.snapshots.ConfigMaps(key.Namespace).Get(runtimesnapshot.Name(key.Name))
	switch {
	case err == nil:
		seen.existing = cm
	case !apierrors.IsNotFound(err):
		return seen, err
	}
	// What we created ourselves a moment ago is newer than what the cache has.
	if noted := c.noted(key, job); noted != nil {
		seen.existing, seen.noted = noted, true
	}
	switch {
	case seen.existing != nil:
		c.opaque.forget(key)
		return seen, nil
	case !trainjob.External(job):
		seen.runtime, err = c.runtimes.read(job)
	case c.opaque.kinds.Has(trainjob.RuntimeKind(job)):
		seen.opaque, err = c.opaque.read(ctx, key, job, now)
	default:
		seen.unsupported, seen.allowed, err = true, c.opaque.kinds, nil
	}
	return seen, err
}

// create writes the snapshot. The cause says why there is none afterwards; with an
// error it is tried again.
func (c *Controller) create(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, cm *corev1.ConfigMap) (*trainjob.Cause, error) {
	if again, err := c.wantedAgain(ctx, job); err != nil || !again {
		return nil, err
	}
	if conflicted(job) {
		// Whether the way is free again is a question, not a write.
		if cause, err := c.examine(ctx, key, job, cm.Name); !apierrors.IsNotFound(err) {
			return cause, err
		}
	}
	created, err := c.configMaps.ConfigMaps(job.Namespace).Create(ctx, cm, metav1.CreateOptions{})
	switch meaning := apierror.Of(err); {
	case err == nil:
		c.created.Put(key, created)
		c.metrics.SnapshotTaken()
		c.announce(job, created)
		return nil, nil
	case meaning == apierror.Exists:
		cause, err := c.examine(ctx, key, job, cm.Name)
		if apierrors.IsNotFound(err) {
			err = queue.RetryAfter(err, time.Second) // gone in between: create it then
		}
		return cause, err
	case !meaning.Refusal() && meaning != apierror.Gone:
		return nil, fmt.Errorf("create ConfigMap %q: %w", cm.Name, err)
	}
	return &trainjob.Cause{
		Reason:  trainer.ReasonCreationFailed,
		Message: fmt.Sprintf("cannot create ConfigMap %q: %v", cm.Name, err),
	}, queue.RetryAfter(fmt.Errorf("create ConfigMap %q: %w", cm.Name, err), trainjob.RetryAfter(job, c.clock.Now()))
}

// conflicted says whether a ConfigMap was in the way when the job was looked at last. A
// suspended job says so in its message.
func conflicted(job *trainer.TrainJob) bool {
	return job.Status.Reason == trainer.ReasonSnapshotConflict || strings.Contains(job.Status.Message, trainer.ReasonSnapshotConflict)
}

// hidden says whether a job may have a snapshot that the watch does not show because it
// never had our label, or has lost it. A job of another controller's may have one of the
// first kind, and is looked at before anything is written for it. Otherwise it is asked
// only when there is nothing to take a snapshot of: is the one that is recorded in the
// status, or that a JobSet was built from, still there?
func (c *Controller) hidden(job *trainer.TrainJob, plan plan) bool {
	if trainjob.Inherited(job) {
		return true
	}
	if plan.create != nil {
		return false // that write finds what is in its way
	}
	if job.Status.Lifecycle == nil || job.Status.RuntimeSnapshot != nil {
		return true
	}
	js, err := c.jobSets.JobSets(job.Namespace).Get(job.Name)
	return err == nil && trainjob.OwnershipOf(job, js) == trainjob.Ours
}

// wantedAgain asks the API server before a snapshot is taken once more: when a job is
// deleted, the watch may tell of its snapshot going away first.
func (c *Controller) wantedAgain(ctx context.Context, job *trainer.TrainJob) (bool, error) {
	if job.Status.RuntimeSnapshot == nil {
		return true, nil
	}
	current, err := operations.LiveTrainJob(ctx, c.trainJobs, job)
	if err != nil || current == nil {
		return false, err
	}
	return !trainjob.BeingDeleted(current) && !trainjob.Finished(current), nil
}

// announce tells of a new snapshot. That it differs from the one it replaces is told when
// that is recorded.
func (c *Controller) announce(job *trainer.TrainJob, cm *corev1.ConfigMap) {
	operations.Emit(c.recorder, job, corev1.EventTypeNormal, operations.EventSnapshotCreated,
		fmt.Sprintf("Took the snapshot of %s in ConfigMap %q", describe(job), cm.Name))
}

// examine reads a ConfigMap that was in the way, live, because the watch sees only
// those that carry our label.
func (c *Controller) examine(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, name string) (*trainjob.Cause, error) {
	cm, err := c.configMaps.ConfigMaps(job.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %q: %w", name, err)
	}
	if cause := conflict(job, cm); cause != nil {
		return cause, nil
	}
	if cm.Labels[trainer.LabelTrainJobName] != job.Name {
		if cm, err = c.adopt(ctx, cm, job); err != nil {
			return nil, err
		}
	}
	c.created.Put(key, cm)
	return nil, nil
}

// adopt puts our label on a snapshot that this very job owns but that was written
// without it, so that the watch sees it. Nothing else of it is touched.
func (c *Controller) adopt(ctx context.Context, cm *corev1.ConfigMap, job *trainer.TrainJob) (*corev1.ConfigMap, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:%q}}}`, cm.UID, trainer.LabelTrainJobName, job.Name)
	adopted, err := c.configMaps.ConfigMaps(cm.Namespace).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("label ConfigMap %q: %w", cm.Name, err)
	}
	return adopted, nil
}

// report writes why the job has no snapshot, unless it has a JobSet: then its status
// speaks of that, and the jobset controller writes it. What it returns is how long the
// write has to wait.
func (c *Controller) report(ctx context.Context, job *trainer.TrainJob, plan plan, now time.Time) (time.Duration, error) {
	if !trainjob.External(job) {
		js, err := c.jobSets.JobSets(job.Namespace).Get(job.Name)
		switch {
		case err == nil && trainjob.OwnershipOf(job, js) == trainjob.Ours:
			return 0, nil
		case err != nil && !apierrors.IsNotFound(err):
			return 0, err
		}
	}
	wait, err := c.status.Report(ctx, job, trainjob.Observed{Blocked: plan.blocked, Failure: plan.failure}, now)
	if err != nil || wait > 0 {
		return wait, err
	}
	for _, cause := range []*trainjob.Cause{plan.blocked, plan.failure} {
		if refusal, ok := operations.SnapshotRefusal(job, cause); ok {
			c.metrics.SnapshotRefused(refusal)
		}
	}
	return 0, nil
}

// handOver leaves a job with its snapshot to the builder of its runtime: the status
// names the snapshot, and, as soon as the job may run, who has the word. That is written
// once; the rest of the status is the builder's.
func (c *Controller) handOver(ctx context.Context, job *trainer.TrainJob, seen observation, now time.Time) (time.Duration, error) {
	var found trainjob.Observed
	if recorded := job.Status.RuntimeSnapshot; recorded == nil || recorded.UID != seen.existing.UID {
		found.Snapshot = runtimesnapshot.Reference(seen.existing)
	}
	return c.status.Report(ctx, job, found, now)
}

// warn tells that the snapshot of a job that its builder has taken over is gone and
// cannot be taken again, which is no state of the job.
func (c *Controller) warn(job *trainer.TrainJob, seen observation, plan plan) {
	if plan.blocked != nil && seen.opaque.news && trainjob.HandedOver(job) {
		operations.Emit(c.recorder, job, corev1.EventTypeWarning, plan.blocked.Reason, "The snapshot is gone. "+plan.blocked.Message)
	}
}

// recheck says when to look again without an event: for a ConfigMap in the way, because
// one without our label is invisible to the watch, and for an opaque runtime.
func recheck(job *trainer.TrainJob, seen observation, plan plan, now time.Time) time.Duration {
	switch {
	case plan.blocked == nil:
		return 0
	case plan.blocked.Reason == trainer.ReasonSnapshotConflict:
		return trainjob.RecheckAfter(job, now)
	}
	return seen.opaque.again
}
