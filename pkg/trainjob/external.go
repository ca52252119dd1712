package trainjob

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// builderSpoke says whether the status tells of a state that we would not have written
// for a job that its builder does not have yet. A builder may say it in a condition alone.
func builderSpoke(status *trainer.TrainJobStatus) bool {
	if othersWord(status.State, status.Reason) {
		return true
	}
	return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && othersWord(trainer.TrainJobState(c.Type), c.Reason)
	})
}

// othersWord says whether a state with this reason is none that we hold an external job in.
func othersWord(state trainer.TrainJobState, reason string) bool {
	switch state {
	case trainer.TrainJobPending:
		return !ownPendingReasons[reason]
	case trainer.TrainJobSuspended:
		return reason != trainer.ReasonSuspended
	case trainer.TrainJobRunning, trainer.TrainJobComplete, trainer.TrainJobFailed:
		return true
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
