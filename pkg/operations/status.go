package operations

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/trainjob"
)

// maxEventMessage is the most bytes an event's message may have.
const maxEventMessage = 1024

// StatusWriter writes the status of TrainJobs.
type StatusWriter struct {
	client   trainerclient.TrainJobsGetter
	recorder record.EventRecorder
	pacer    pacer
	metrics  *metrics.Metrics // nil measures nothing
}

// NewStatusWriter returns a writer that tells of what it writes through recorder.
func NewStatusWriter(client trainerclient.TrainJobsGetter, recorder record.EventRecorder) *StatusWriter {
	return &StatusWriter{client: client, recorder: recorder}
}

// Write makes `next` the status of the job if it differs, and then emits the events
// of the change. A change that brings little news may have to wait, and so may one
// that was computed from a cache which does not show our last write yet: then nothing
// is written and the time to come back after is returned. The write fails with a
// conflict if the job has changed since it was read, and with NotFound if it is gone;
// its event brings it back.
func (w *StatusWriter) Write(ctx context.Context, job *trainer.TrainJob, next *trainer.TrainJobStatus, now time.Time) (time.Duration, error) {
	return w.write(ctx, job, next, trainjob.Observed{}, now)
}

// Report writes what the status of the job must be after what was observed. What will
// be in the way of a suspended job is told as an event too: nobody reads the messages
// of a job that waits its turn.
func (w *StatusWriter) Report(ctx context.Context, job *trainer.TrainJob, seen trainjob.Observed, now time.Time) (time.Duration, error) {
	wait, err := w.write(ctx, job, trainjob.Next(job, seen, now), seen, now)
	if apierror.Of(err) == apierror.Gone {
		return 0, nil // deleted in the meantime: its event is on the way
	}
	return wait, err
}

func (w *StatusWriter) write(ctx context.Context, job *trainer.TrainJob, next *trainer.TrainJobStatus, seen trainjob.Observed, now time.Time) (time.Duration, error) {
	change := trainjob.Compare(job, next)
	if change == trainjob.Same {
		return 0, nil
	}
	if wait := w.pacer.wait(job, change, now); wait > 0 {
		return wait, nil
	}
	patch, err := trainjob.StatusPatch(job, next)
	if err != nil || patch == nil {
		return 0, err
	}
	updated, err := w.client.TrainJobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
	if updated.ResourceVersion != job.ResourceVersion {
		w.pacer.wrote(job, now) // a write that changed nothing brings no event to wait for
		w.measure(job, next, now)
	}
	for _, event := range statusEvents(&job.Status, next) {
		Emit(w.recorder, job, event.Type, event.Reason, event.Message)
	}
	if blocked := seen.Blocked; blocked != nil && next.State == trainer.TrainJobSuspended && reworded(&job.Status, next) && !told(&job.Status, blocked) {
		Emit(w.recorder, job, corev1.EventTypeWarning, blocked.Reason, blocked.Message)
	}
	if next.Restarts > job.Status.Restarts && job.Status.Lifecycle != nil { // not those under another controller
		Emit(w.recorder, job, corev1.EventTypeWarning, EventRestarted, "This is "+trainjob.RestartMessage(seen.JobSet))
	}
	return 0, nil
}

// Forget drops what is remembered of a job that is gone.
func (w *StatusWriter) Forget(key cache.ObjectName) { w.pacer.forget(key) }

// Emit records an event about a job, its message cut to what an event can hold.
func Emit(recorder record.EventRecorder, job *trainer.TrainJob, eventType, reason, message string) {
	if len(message) > maxEventMessage {
		// The cut may go through a character.
		message = strings.ToValidUTF8(message[:maxEventMessage-3], "") + "..."
	}
	recorder.Event(job, eventType, reason, message)
}

// Event is what is told about a job.
type Event struct {
	Type, Reason, Message string
}

// Reasons of events that are not reasons of states.
const (
	EventResumed                 = "Resumed"
	EventRestarted               = "Restarted"
	EventSnapshotCreated         = "SnapshotCreated"
	EventRuntimeSnapshotReplaced = "RuntimeSnapshotReplaced"
	EventJobSetCreated           = "JobSetCreated"
	EventJobSetRecreated         = "JobSetRecreated"
	EventPatchNotApplied         = "PatchNotApplied"
	EventCompleted               = "Completed"
	EventFailed                  = "Failed"
	EventTTLExpired              = "TTLExpired"
)

// statusEvents is what a change of status tells the user.
func statusEvents(before, after *trainer.TrainJobStatus) []Event {
	var events []Event
	if was, is := before.RuntimeSnapshot, after.RuntimeSnapshot; was != nil && is != nil && was.Digest != is.Digest {
		// Told with the record of it, so that a crash in between forgets nothing, and
		// whoever has made the new one.
		events = append(events, Event{corev1.EventTypeWarning, EventRuntimeSnapshotReplaced, fmt.Sprintf(
			"ConfigMap %q was deleted and made again, and holds another runtime than before: what is built for the job from now on is built from that", is.Name)})
	}
	entered := before.State != after.State
	if before.State == trainer.TrainJobSuspended && entered && !terminal(after) {
		events = append(events, Event{corev1.EventTypeNormal, EventResumed, "The job was resumed"})
	}
	switch after.State {
	case trainer.TrainJobSuspended:
		if entered {
			events = append(events, Event{corev1.EventTypeNormal, trainer.ReasonSuspended, "The job is suspended"})
		}
	case trainer.TrainJobComplete:
		if entered {
			events = append(events, Event{corev1.EventTypeNormal, EventCompleted, after.Message})
		}
	case trainer.TrainJobFailed:
		if entered {
			events = append(events, Event{corev1.EventTypeWarning, failureReason(after.Reason), after.Message})
		}
	case trainer.TrainJobPending:
		if blocks(after.Reason) && (entered || before.Reason != after.Reason || before.Message != after.Message) {
			events = append(events, Event{corev1.EventTypeWarning, after.Reason, after.Message})
		}
	}
	return events
}

// reworded says whether the state has another message, or is another one.
func reworded(before, after *trainer.TrainJobStatus) bool {
	return before.State != after.State || before.Message != after.Message
}

// told says whether the job was Pending for this very cause, which its user then knows.
func told(before *trainer.TrainJobStatus, cause *trainjob.Cause) bool {
	return before.State == trainer.TrainJobPending && before.Reason == cause.Reason && before.Message == cause.Message
}

func terminal(status *trainer.TrainJobStatus) bool {
	return status.State == trainer.TrainJobComplete || status.State == trainer.TrainJobFailed
}

// failureReason keeps the reasons this controller decides on; a failure that comes
// from the JobSet is told under one reason, with the JobSet's message.
func failureReason(reason string) string {
	switch reason {
	case trainer.ReasonDeadlineExceeded, trainer.ReasonTrainingRuntimeNotSupported:
		return reason
	}
	return EventFailed
}

// blocks says whether somebody has to do something before the job can go on.
func blocks(reason string) bool {
	return reason != trainer.ReasonWaitingForPods && reason != trainer.ReasonExternalRuntime
}
