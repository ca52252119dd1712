package jobset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// lookAgain is how soon a step is taken up again that waits for another controller's
// or our own cache's next event, should that event not come.
const lookAgain = time.Second

// refusedAgain is how long to wait before a JobSet that was called invalid is tried once
// more.
const refusedAgain = 45 * time.Second

// sync brings the JobSet to what the job wants and the job's status to what the
// JobSet says.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (queue.Result, error) {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.status.Forget(key)
		c.warned.forget(key)
		c.helpers.released.forget(key)
		return queue.Result{}, nil
	}
	if err != nil || !trainjob.ManagedByUs(job) {
		return queue.Result{}, err
	}
	now := c.clock.Now()
	seen, err := c.gather(key, job)
	if err != nil {
		return queue.Result{}, err
	}
	if trainjob.Finished(job) {
		return c.finish(ctx, key, job, seen, now)
	}
	if trainjob.Deadline(job, now).Kind == lifetime.Expired {
		return queue.Result{}, nil // the lifecycle controller ends it
	}
	if seen.own(job) == nil && seen.snapshot == nil {
		return queue.Result{}, nil // the snapshot controller has the word
	}
	c.warn(key, job, seen)
	done := c.apply(ctx, key, job, seen)
	result, err := c.report(ctx, job, done.observed, now)
	if err = errors.Join(err, done.err); err != nil {
		return queue.Result{}, err
	}
	result = soonest(result, done.result)
	if seen.noted {
		// Should the JobSet be gone already, no event is left to say so.
		result = soonest(result, queue.Result{After: informer.NoteLifetime})
	}
	return result, nil
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
	if noted, ok := c.created.Get(key); ok && trainjob.OwnershipOf(job, noted) == trainjob.Ours && seen.own(job) == nil {
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

// outcome of acting on a JobSet: what is to be reported, and when to come back.
type outcome struct {
	observed trainjob.Observed
	result   queue.Result
	err      error
}

// apply carries out what was decided, with at most one write to the JobSet.
func (c *Controller) apply(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation) outcome {
	plan := decide(job, seen)
	out := outcome{observed: trainjob.Observed{JobSet: seen.own(job), Blocked: plan.blocked}}
	if recorded := job.Status.RuntimeSnapshot; seen.snapshot != nil && (recorded == nil || recorded.UID != seen.snapshot.UID) {
		out.observed.Snapshot = runtimesnapshot.Reference(seen.snapshot)
	}
	switch plan.action {
	case create:
		c.create(ctx, key, job, seen, &out)
	case suspend:
		c.keep(&out)(c.writer.suspend(ctx, seen.jobSet))
	case refresh:
		c.refresh(ctx, job, seen, &out)
	case remake:
		c.remake(ctx, seen, &out)
	case resume:
		c.resume(ctx, job, seen, &out)
	}
	return out
}

// keep takes the result of a write to a JobSet into the outcome. If the JobSet has been
// deleted in the meantime, its event is on the way.
func (c *Controller) keep(out *outcome) func(*jobset.JobSet, error) {
	return func(written *jobset.JobSet, err error) {
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			out.err = err
			return
		}
		out.observed.JobSet = written
	}
}

// create makes the JobSet from the snapshot.
func (c *Controller) create(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation, out *outcome) {
	objects, cause := objectsOf(job, seen.snapshot)
	if cause != nil {
		out.observed.Blocked = cause
		return
	}
	if again, err := c.wantedAgain(ctx, job, seen); err != nil || !again {
		out.err, out.result.After = err, lookAgain
		return
	}
	out.observed.Nodes = &objects.Nodes
	if !c.ensureHelpers(ctx, job, objects, true, out) {
		return
	}
	js, err := c.writer.create(ctx, objects.JobSet)
	switch {
	case err == nil:
		c.created.Put(key, js)
		c.metrics.JobSetCreated()
		c.announce(job)
		out.observed.JobSet = js
	case apierrors.IsAlreadyExists(err):
		c.examine(ctx, key, job, out)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		out.err = err
	default:
		out.observed.Blocked = &trainjob.Cause{Reason: trainer.ReasonCreationFailed, Message: creationMessage(job, err)}
		out.err = fmt.Errorf("create JobSet: %w", err)
		if apierrors.IsInvalid(err) {
			// What is sent does not change; only another version of JobSet could take it.
			out.err = queue.RetryAfter(out.err, refusedAgain)
		}
	}
}

// wantedAgain asks the API server before a JobSet is created once more: when a job is
// deleted, the watch may tell of its JobSet going away first.
func (c *Controller) wantedAgain(ctx context.Context, job *trainer.TrainJob, seen observation) (bool, error) {
	if job.Status.StartTime == nil {
		return true, nil
	}
	current, err := operations.LiveTrainJob(ctx, c.trainJobs, job)
	if err != nil || current == nil {
		return false, err
	}
	return !trainjob.Finished(current) && decide(current, seen).action == create, nil
}

// creationMessage names the snapshot when what it contains was refused.
func creationMessage(job *trainer.TrainJob, err error) string {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return fmt.Sprintf("the JobSet built from ConfigMap %q was refused: %s", runtimesnapshot.Name(job.Name), abridged(err.Error()))
	}
	return fmt.Sprintf("the JobSet cannot be created: %s", abridged(err.Error()))
}

// abridged leaves out the middle of a long message: JobSet's admission quotes all that it
// was sent before it says what is wrong with it.
func abridged(message string) string {
	const head, tail = 200, 600
	if len(message) <= head+tail {
		return message
	}
	return strings.ToValidUTF8(message[:head], "") + " [...] " + strings.ToValidUTF8(message[len(message)-tail:], "")
}

// announce tells of a new JobSet, as a warning when one was there before.
func (c *Controller) announce(job *trainer.TrainJob) {
	if job.Status.StartTime != nil {
		operations.Emit(c.recorder, job, corev1.EventTypeWarning, operations.EventJobSetRecreated,
			fmt.Sprintf("JobSet %q was deleted while the job was unfinished and has been created again", job.Name))
		return
	}
	operations.Emit(c.recorder, job, corev1.EventTypeNormal, operations.EventJobSetCreated, fmt.Sprintf("Created JobSet %q", job.Name))
}

// examine reads a JobSet that was in the way, live: the cache has not shown it yet.
func (c *Controller) examine(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, out *outcome) {
	js, err := c.writer.get(ctx, job.Namespace, job.Name)
	if err != nil {
		out.err = queue.RetryAfter(fmt.Errorf("read JobSet: %w", err), lookAgain)
		return
	}
	if trainjob.OwnershipOf(job, js) == trainjob.Ours {
		c.created.Put(key, js)
	}
	plan := decide(job, observation{jobSet: js})
	out.observed.Blocked = plan.blocked
	out.observed.JobSet = observation{jobSet: js}.own(job)
	out.result.After = lookAgain
}

// refresh brings a suspended JobSet up to date with the job's patches.
func (c *Controller) refresh(ctx context.Context, job *trainer.TrainJob, seen observation, out *outcome) {
	objects, cause := objectsOf(job, seen.snapshot)
	if cause != nil {
		out.observed.Blocked = cause
		return
	}
	live, err := c.writer.get(ctx, job.Namespace, job.Name)
	switch {
	case apierrors.IsNotFound(err):
		return // its event is on the way
	case err != nil:
		out.err = fmt.Errorf("read JobSet: %w", err)
	case live.UID != seen.jobSet.UID || !trainjob.JobSetSuspended(live):
		out.result.After = lookAgain
	default:
		c.keep(out)(c.writer.refresh(ctx, live, objects.JobSet))
		if late := render.Unapplied(job.Spec.RuntimePatches, live, objects.JobSet); out.err == nil && len(late) > 0 {
			operations.Emit(c.recorder, job, corev1.EventTypeWarning, operations.EventPatchNotApplied,
				"A JobSet that has been created cannot take these changes of spec.runtimePatches; the job goes on without them: "+strings.Join(late, ", "))
		}
	}
}

// remake deletes the child Jobs that a refresh has made stale.
func (c *Controller) remake(ctx context.Context, seen observation, out *outcome) {
	done, err := c.writer.remakeJobs(ctx, seen.jobSet)
	switch {
	case err != nil:
		out.err = err
	case !done:
		out.result.After = lookAgain
	default:
		c.keep(out)(c.writer.remade(ctx, seen.jobSet))
	}
}

// resume lets a suspended JobSet run, if a live look at both objects confirms that
// this is what is wanted: Kueue suspends a TrainJob and its JobSet too, and a cache that
// is a moment old must not undo that.
func (c *Controller) resume(ctx context.Context, job *trainer.TrainJob, seen observation, out *outcome) {
	current, err := operations.LiveTrainJob(ctx, c.trainJobs, job)
	if err != nil {
		out.err = err
		return
	}
	if current == nil {
		return // deleted: its event is on the way
	}
	live, err := c.writer.get(ctx, job.Namespace, job.Name)
	if err != nil {
		out.err = queue.RetryAfter(fmt.Errorf("read JobSet: %w", err), lookAgain)
		return
	}
	if live.UID != seen.jobSet.UID || decide(current, observation{jobSet: live}).action != resume {
		out.result.After = lookAgain
		return
	}
	if c.ensureForResume(ctx, current, seen, out) {
		c.keep(out)(c.writer.resume(ctx, live))
	}
}

// finish handles a job that is Complete or Failed: a JobSet that has outlived its
// job's deadline goes, so does the group it was scheduled in, and the counters follow
// what is left.
func (c *Controller) finish(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation, now time.Time) (queue.Result, error) {
	own := seen.own(job)
	var failed error
	if own != nil && own.DeletionTimestamp.IsZero() && trainjob.FailedFor(job, trainer.ReasonDeadlineExceeded) {
		failed = c.writer.delete(ctx, own)
	}
	released := c.releasePodGroup(ctx, key, job, seen)
	result, err := c.report(ctx, job, trainjob.Observed{JobSet: own}, now)
	return result, errors.Join(failed, released, err)
}

// report writes what the status must be after what was observed.
func (c *Controller) report(ctx context.Context, job *trainer.TrainJob, seen trainjob.Observed, now time.Time) (queue.Result, error) {
	wait, err := c.status.Write(ctx, job, trainjob.Next(job, seen, now), now)
	return queue.Result{After: wait}, err
}

// soonest is the earlier of two wishes to come back; zero is no wish.
func soonest(a, b queue.Result) queue.Result {
	if a.After == 0 || (b.After > 0 && b.After < a.After) {
		return b
	}
	return a
}
