package trainjob

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// RuntimeKind is the group and kind of the runtime that a job refers to. The CRD fills
// in both fields; objects from before that, or written past it, may lack them.
func RuntimeKind(job *trainer.TrainJob) schema.GroupKind {
	return schema.GroupKind{
		Group: ptr.Deref(job.Spec.RuntimeRef.APIGroup, trainer.GroupName),
		Kind:  ptr.Deref(job.Spec.RuntimeRef.Kind, trainer.ClusterTrainingRuntimeKind),
	}
}

// OwnRuntimeKind says whether runtimes of a kind are those this controller builds from.
func OwnRuntimeKind(kind schema.GroupKind) bool {
	return kind == trainer.Kind(trainer.ClusterTrainingRuntimeKind) || kind == trainer.Kind(trainer.TrainingRuntimeKind)
}

// UnderstoodKinds names the kinds of runtimes that a job can have, for messages: our own,
// and those that are left to builders of their own.
func UnderstoodKinds(opaque sets.Set[schema.GroupKind]) string {
	own := fmt.Sprintf("%s and %s of %s", trainer.ClusterTrainingRuntimeKind, trainer.TrainingRuntimeKind, trainer.GroupName)
	var others []string
	for kind := range opaque {
		others = append(others, kind.String())
	}
	if len(others) == 0 {
		return own
	}
	slices.Sort(others)
	return own + ", and for builders of their own " + strings.Join(others, ", ")
}

// External says whether the job's runtime is of a kind that this controller does not
// build from. Somebody else does, its builder; or nobody, and the job fails. It is a
// fact of the job alone: nothing that is configured at a start makes a job change hands.
func External(job *trainer.TrainJob) bool {
	return !OwnRuntimeKind(RuntimeKind(job))
}

// HandedOver says whether the state of an external job belongs to its builder by now:
// we have let it start, or the builder has written a state of its own already.
func HandedOver(job *trainer.TrainJob) bool {
	return External(job) && (job.Status.StartTime != nil || builderSpoke(&job.Status))
}

// builderSpoke says whether a state condition is True that we would not have written
// for a job that its builder does not have yet.
func builderSpoke(status *trainer.TrainJobStatus) bool {
	for _, c := range status.Conditions {
		if c.Status != "True" {
			continue
		}
		switch trainer.TrainJobState(c.Type) {
		case trainer.TrainJobPending:
			if !ownPendingReasons[c.Reason] {
				return true
			}
		case trainer.TrainJobSuspended:
			if c.Reason != trainer.ReasonSuspended {
				return true
			}
		case trainer.TrainJobRunning, trainer.TrainJobComplete, trainer.TrainJobFailed:
			return true
		}
	}
	return false
}

// ownPendingReasons are those under which we hold an external job back. Its builder
// must have others.
var ownPendingReasons = map[string]bool{
	trainer.ReasonWaitingForRuntime: true,
	trainer.ReasonRuntimeInvalid:    true,
	trainer.ReasonSnapshotConflict:  true,
	trainer.ReasonSnapshotTooLarge:  true,
	trainer.ReasonSnapshotInvalid:   true,
	trainer.ReasonCreationFailed:    true,
	trainer.ReasonExternalRuntime:   true,
}
