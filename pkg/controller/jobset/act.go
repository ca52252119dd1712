package jobset

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// lookAgain is how soon a step is taken up again that waits for another controller's
// or our own cache's next event, should that event not come.
const lookAgain = time.Second

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
	if job.Status.Nodes == nil && plan.action != create {
		// Suspended from the start, or created just before a crash: known all the same.
		if objects, cause := c.objectsOf(job, seen.snapshot); cause == nil {
			out.observed.Nodes = &objects.Nodes
		}
	}
	switch plan.action {
	case create:
		c.create(ctx, key, job, seen, &out)
	case suspend:
		c.keep(job, &out)(c.writer.suspend(ctx, seen.jobSet))
	case refresh:
		c.refresh(ctx, job, seen, &out)
	case remake:
		c.remake(ctx, job, seen, &out)
	case resume:
		c.resume(ctx, job, seen, &out)
	}
	return out
}

// keep takes the result of a write to a JobSet into the outcome. If the JobSet has been
// deleted or changed in the meantime, its event is on the way.
func (c *Controller) keep(job *trainer.TrainJob, out *outcome) func(*jobset.JobSet, error) {
	return func(written *jobset.JobSet, err error) {
		switch meaning := apierror.Of(err); {
		case err == nil:
			out.observed.JobSet = written
		case meaning == apierror.Gone:
		case !meaning.Refusal():
			out.err = err
		default:
			out.observed.Blocked = &trainjob.Cause{
				Reason:  trainer.ReasonCreationFailed,
				Message: "the JobSet cannot be changed: " + abridged(err.Error()),
			}
			out.err = tryAgain(job, c.clock.Now(), fmt.Errorf("write JobSet: %w", err))
		}
	}
}

// create makes the JobSet from the snapshot.
func (c *Controller) create(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation, out *outcome) {
	objects, cause := c.objectsOf(job, seen.snapshot)
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
	switch meaning := apierror.Of(err); {
	case err == nil:
		c.created.Put(key, js)
		c.metrics.JobSetCreated()
		c.announce(job)
		out.observed.JobSet = js
	case meaning == apierror.Exists:
		c.examine(ctx, key, job, out)
	case !meaning.Refusal() && meaning != apierror.Gone:
		out.err = fmt.Errorf("create JobSet: %w", err)
	default:
		out.observed.Blocked = &trainjob.Cause{Reason: trainer.ReasonCreationFailed, Message: creationMessage(job, err)}
		out.err = tryAgain(job, c.clock.Now(), fmt.Errorf("create JobSet: %w", err))
	}
}

// wantedAgain asks the API server before a JobSet is created for a job that has a past:
// when a job is deleted, the watch may tell of its JobSet going away first, and a job
// that was resumed may have been suspended again. What has changed since the job was
// cached has an event on the way.
func (c *Controller) wantedAgain(ctx context.Context, job *trainer.TrainJob, seen observation) (bool, error) {
	if job.Status.StartTime == nil && job.Generation <= 1 {
		return true, nil // new, and created to run
	}
	current, err := operations.LiveTrainJob(ctx, c.trainJobs, job)
	if err != nil || current == nil {
		return false, err
	}
	unchanged := current.Generation == job.Generation && !trainjob.Finished(current)
	return unchanged && decide(current, seen).action == create, nil
}

// tryAgain is for what the API server refused and what the job's status speaks of: a
// quota, an admission policy, a webhook that is down. It is tried again as long as it
// takes, but neither in a hurry nor with a line in the log each time.
func tryAgain(job *trainer.TrainJob, now time.Time, err error) error {
	return queue.RetryAfter(err, trainjob.RetryAfter(job, now))
}

// creationMessage names the snapshot when what it contains was refused.
func creationMessage(job *trainer.TrainJob, err error) string {
	if apierror.Of(err).Content() {
		return fmt.Sprintf("the JobSet built from the snapshot and the job was refused; correct the job, or correct the runtime and delete ConfigMap %q: %s",
			runtimesnapshot.Name(job.Name), abridged(err.Error()))
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
	objects, cause := c.objectsOf(job, seen.snapshot)
	if cause != nil {
		out.observed.Blocked = cause
		return
	}
	live, err := c.writer.get(ctx, job.Namespace, job.Name)
	switch {
	case apierror.Of(err) == apierror.Gone:
		return // its event is on the way
	case err != nil:
		out.err = fmt.Errorf("read JobSet: %w", err)
	case live.UID != seen.jobSet.UID || !trainjob.JobSetSuspended(live):
		out.result.After = lookAgain
	default:
		c.keep(job, out)(c.writer.refresh(ctx, live, objects.JobSet))
		if late := render.Unapplied(job.Spec.RuntimePatches, live, objects.JobSet); out.err == nil && len(late) > 0 {
			operations.Emit(c.recorder, job, corev1.EventTypeWarning, operations.EventPatchNotApplied,
				"A JobSet that has been created cannot take these changes of spec.runtimePatches; the job goes on without them: "+strings.Join(late, ", "))
		}
	}
}

// remake deletes the child Jobs that a refresh has made stale.
func (c *Controller) remake(ctx context.Context, job *trainer.TrainJob, seen observation, out *outcome) {
	done, err := c.writer.remakeJobs(ctx, seen.jobSet)
	switch {
	case err != nil:
		out.err = err
	case !done:
		out.result.After = lookAgain
	default:
		c.keep(job, out)(c.writer.remade(ctx, seen.jobSet))
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
	if held, err := c.writer.jobsHeldBack(ctx, live); err != nil || !held {
		out.err, out.result.After = err, lookAgain
		return
	}
	if c.ensureForResume(ctx, current, seen, out) {
		c.keep(job, out)(c.writer.resume(ctx, live))
	}
}
