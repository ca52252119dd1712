package snapshot

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// observation is what was found for a job without a snapshot of its own.
type observation struct {
	// existing is a ConfigMap of the snapshot's name, nil if the cache has none.
	existing *corev1.ConfigMap
	// noted: existing is what our own CREATE returned; the cache does not show it yet.
	noted bool
	// runtime the job refers to, nil if it does not exist.
	runtime *runtimesnapshot.Runtime
	// opaque is what came of looking for a runtime that a builder of its own understands.
	opaque sought
	// unsupported: the job's runtime is of a kind that is not understood.
	unsupported bool
	// allowed are the kinds that are left to builders of their own, to name them then.
	allowed sets.Set[schema.GroupKind]
}

// plan is what to do for the job: at most one of create, blocked and failure is set.
type plan struct {
	create  *corev1.ConfigMap
	blocked *trainjob.Cause
	failure *trainjob.Cause
}

// decide says what to do. It looks at nothing but its arguments and changes neither.
func decide(job *trainer.TrainJob, seen observation) plan {
	if seen.existing != nil {
		if cause := conflict(job, seen.existing); cause != nil {
			return plan{blocked: cause}
		}
		return plan{}
	}
	if seen.unsupported {
		return decideUnsupported(job, seen.allowed)
	}
	if trainjob.External(job) {
		return decideOpaque(job, seen.opaque)
	}
	if seen.runtime == nil {
		return plan{blocked: &trainjob.Cause{
			Reason:  trainer.ReasonWaitingForRuntime,
			Message: fmt.Sprintf("spec.runtimeRef names %s, which does not exist: the job goes on when it is created", describe(job)),
		}}
	}
	if _, err := render.Render(job, render.FromSnapshot(seen.runtime)); err != nil {
		return plan{blocked: &trainjob.Cause{
			Reason:  trainer.ReasonRuntimeInvalid,
			Message: err.Error(),
		}}
	}
	return frozen(runtimesnapshot.Encode(job, seen.runtime))
}

// decideUnsupported ends a job whose runtime nobody understands. One that has had its
// snapshot was understood before: its builder may be at work.
func decideUnsupported(job *trainer.TrainJob, allowed sets.Set[schema.GroupKind]) plan {
	if job.Status.RuntimeSnapshot != nil || trainjob.HandedOver(job) {
		return plan{blocked: &trainjob.Cause{
			Reason: trainer.ReasonWaitingForRuntime,
			Message: fmt.Sprintf("the snapshot of %s is gone, and cannot be taken again because its kind is not listed in --opaque-runtime-kinds any more",
				describe(job)),
		}}
	}
	return plan{failure: &trainjob.Cause{
		Reason: trainer.ReasonTrainingRuntimeNotSupported,
		Message: fmt.Sprintf("spec.runtimeRef names %s: this controller understands the kinds %s; create the job again with one of them, or after this kind has been listed in --opaque-runtime-kinds",
			describe(job), trainjob.UnderstoodKinds(allowed)),
	}}
}

// decideOpaque freezes a runtime as it is: only its builder can tell whether it is of use.
func decideOpaque(job *trainer.TrainJob, found sought) plan {
	if found.runtime == nil {
		return plan{blocked: found.missing}
	}
	return frozen(runtimesnapshot.EncodeOpaque(job, found.runtime))
}

// frozen is the plan after a runtime has been encoded, or could not be.
func frozen(cm *corev1.ConfigMap, err error) plan {
	if err != nil {
		reason := trainer.ReasonRuntimeInvalid
		if tooLarge := (*runtimesnapshot.TooLargeError)(nil); errors.As(err, &tooLarge) {
			reason = trainer.ReasonSnapshotTooLarge
		}
		return plan{blocked: &trainjob.Cause{Reason: reason, Message: err.Error()}}
	}
	return plan{create: cm}
}

// conflict says why a ConfigMap of the snapshot's name cannot be used; nil if it is
// the job's own.
func conflict(job *trainer.TrainJob, cm *corev1.ConfigMap) *trainjob.Cause {
	switch trainjob.OwnershipOf(job, cm) {
	case trainjob.Ours:
		return nil
	case trainjob.Older:
		return &trainjob.Cause{
			Reason:  trainer.ReasonSnapshotConflict,
			Message: fmt.Sprintf("waiting until ConfigMap %q of an earlier TrainJob %q is gone", cm.Name, job.Name),
		}
	}
	return &trainjob.Cause{
		Reason: trainer.ReasonSnapshotConflict,
		Message: fmt.Sprintf("ConfigMap %q exists and does not belong to this TrainJob: delete or rename it, or give the job another name",
			cm.Name),
	}
}
