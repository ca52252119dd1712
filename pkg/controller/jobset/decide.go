package jobset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// observation is what was found for a job.
type observation struct {
	// jobSet of the job's name, whoever owns it; nil if there is none.
	jobSet *jobset.JobSet
	// noted: jobSet is what our own CREATE returned; the cache does not show it yet.
	noted bool
	// snapshot of the job's own; nil if there is none yet.
	snapshot *corev1.ConfigMap
}

// own is the JobSet if it is this job's.
func (o observation) own(job *trainer.TrainJob) *jobset.JobSet {
	if o.jobSet != nil && trainjob.OwnershipOf(job, o.jobSet) == trainjob.Ours {
		return o.jobSet
	}
	return nil
}

// action is what is to be done to the JobSet in one sync.
type action string

const (
	// keep it as it is, or as absent as it is.
	keep action = "keep"
	// create it.
	create action = "create"
	// suspend it.
	suspend action = "suspend"
	// refresh the fields of a suspended JobSet that runtimePatches may change.
	refresh action = "refresh"
	// remake the suspended child Jobs from which a refresh has removed something.
	remake action = "remake"
	// resume it.
	resume action = "resume"
)

// plan is what to do for a job, and what keeps it from running.
type plan struct {
	action  action
	blocked *trainjob.Cause
}

// decide says what is to be done to the JobSet of a job that has not finished. It
// looks at nothing but its arguments and changes neither.
func decide(job *trainer.TrainJob, seen observation) plan {
	if seen.jobSet == nil {
		return decideAbsent(job, seen)
	}
	switch trainjob.OwnershipOf(job, seen.jobSet) {
	case trainjob.Older:
		return plan{keep, &trainjob.Cause{
			Reason:  trainer.ReasonJobSetConflict,
			Message: fmt.Sprintf("waiting until JobSet %q of an earlier TrainJob of this name is gone", seen.jobSet.Name),
		}}
	case trainjob.Foreign:
		return plan{keep, &trainjob.Cause{
			Reason: trainer.ReasonJobSetConflict,
			Message: fmt.Sprintf("JobSet %q exists and does not belong to this TrainJob: delete it, or give the job another name",
				seen.jobSet.Name),
		}}
	}
	return plan{action: decidePresent(job, seen)}
}

func decideAbsent(job *trainer.TrainJob, seen observation) plan {
	if trainjob.Suspended(job) || trainjob.BeingDeleted(job) || seen.snapshot == nil {
		return plan{action: keep}
	}
	return plan{action: create}
}

func decidePresent(job *trainer.TrainJob, seen observation) action {
	js := seen.jobSet
	if trainjob.BeingDeleted(job) || !js.DeletionTimestamp.IsZero() || trainjob.JobSetEnd(js) != nil {
		return keep
	}
	if !trainjob.JobSetSuspended(js) {
		if trainjob.Suspended(job) {
			return suspend
		}
		return keep
	}
	built := js.Annotations[trainer.AnnotationPatchesHash]
	switch {
	case built == "" && seen.snapshot == nil && trainjob.Suspended(job):
		return keep // another controller's, and nothing is urgent: its snapshot is being adopted or taken
	case !render.BuiltFrom(built, job.Spec.RuntimePatches):
		return refresh
	case js.Annotations[annotationRemake] != "":
		return remake
	case !trainjob.Suspended(job) && trainjob.JobSetHeldBack(js):
		return resume
	}
	return keep
}

// annotationRemake, on a suspended JobSet, lists the replicatedJobs whose child Jobs
// must be deleted before it may be resumed: JobSet merges its template into Jobs that
// exist, so what was removed from the template would live on in them. It is on the
// object and not in memory so that a crash in between forgets nothing.
const annotationRemake = trainer.AnnotationRemakeJobs

// objectsOf renders a job from its snapshot. The cause says why it cannot be.
func (c *Controller) objectsOf(job *trainer.TrainJob, snapshot *corev1.ConfigMap) (*render.Objects, *trainjob.Cause) {
	if snapshot == nil {
		return nil, &trainjob.Cause{
			Reason:  trainer.ReasonSnapshotInvalid,
			Message: fmt.Sprintf("ConfigMap %q is gone, and without it spec.runtimePatches cannot be applied: the job goes on when the snapshot can be taken from the runtime", runtimesnapshot.Name(job.Name)),
		}
	}
	if err := runtimesnapshot.Matches(snapshot, job.Status.RuntimeSnapshot); err != nil {
		return nil, &trainjob.Cause{Reason: trainer.ReasonSnapshotInvalid, Message: err.Error()}
	}
	runtime, err := c.decoder.Decode(snapshot)
	if err != nil {
		return nil, &trainjob.Cause{
			Reason:  trainer.ReasonSnapshotInvalid,
			Message: fmt.Sprintf("%v; delete the ConfigMap to take a new snapshot from the runtime", err),
		}
	}
	objects, err := render.Render(job, render.FromSnapshot(runtime))
	if err != nil {
		return nil, &trainjob.Cause{
			Reason:  trainer.ReasonRuntimeInvalid,
			Message: fmt.Sprintf("%v (as it was when its snapshot, ConfigMap %q, was taken)", err, snapshot.Name),
		}
	}
	return objects, nil
}
