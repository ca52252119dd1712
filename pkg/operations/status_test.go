package operations

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// in is the status of a job in a state.
func in(state trainer.TrainJobState, reason, message string) *trainer.TrainJobStatus {
	return &trainer.TrainJobStatus{State: state, Reason: reason, Message: message}
}

// snapshot records one with a digest.
func snapshot(status *trainer.TrainJobStatus, digest string) *trainer.TrainJobStatus {
	status.RuntimeSnapshot = &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", UID: "u", Digest: digest}
	return status
}

func TestEventsTellWhatAChangeOfStatusMeans(t *testing.T) {
	var (
		fresh     = &trainer.TrainJobStatus{}
		waiting   = in(trainer.TrainJobPending, trainer.ReasonWaitingForPods, "pods")
		noRuntime = in(trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, "no runtime")
		refused   = in(trainer.TrainJobPending, trainer.ReasonCreationFailed, "no")
		external  = in(trainer.TrainJobPending, trainer.ReasonExternalRuntime, "theirs")
		suspended = in(trainer.TrainJobSuspended, trainer.ReasonSuspended, "held")
		running   = in(trainer.TrainJobRunning, trainer.ReasonPodsReady, "ready")
		complete  = in(trainer.TrainJobComplete, "AllJobsCompleted", "done")
		failed    = in(trainer.TrainJobFailed, "FailedJobs", "broken")
		overdue   = in(trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, "late")
		foreign   = in(trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, "what?")
	)
	cases := map[string]struct {
		before, after *trainer.TrainJobStatus
		want          []string
	}{
		"nothing is known yet":           {fresh, fresh, nil},
		"the first snapshot is recorded": {fresh, snapshot(in(trainer.TrainJobPending, trainer.ReasonWaitingForPods, "pods"), "sha256:a"), nil},
		"the same was taken again":       {snapshot(in(trainer.TrainJobRunning, trainer.ReasonPodsReady, "ready"), "sha256:a"), snapshot(in(trainer.TrainJobRunning, trainer.ReasonPodsReady, "ready"), "sha256:a"), nil},
		"another was": {
			snapshot(in(trainer.TrainJobRunning, trainer.ReasonPodsReady, "ready"), "sha256:a"), snapshot(in(trainer.TrainJobRunning, trainer.ReasonPodsReady, "ready"), "sha256:b"),
			[]string{`Warning RuntimeSnapshotReplaced ConfigMap "a-runtime-snapshot" was deleted and made again, and holds another runtime than before: what is built for the job from now on is built from that`},
		},
		"another was, before any state is known": {
			snapshot(&trainer.TrainJobStatus{}, "sha256:a"), snapshot(&trainer.TrainJobStatus{}, "sha256:b"),
			[]string{`Warning RuntimeSnapshotReplaced ConfigMap "a-runtime-snapshot" was deleted and made again, and holds another runtime than before: what is built for the job from now on is built from that`},
		},
		"a job begins to wait for pods":     {fresh, waiting, nil},
		"a job is somebody else's to build": {fresh, external, nil},
		"a job is blocked from the start":   {fresh, noRuntime, []string{"Warning WaitingForRuntime no runtime"}},
		"another thing blocks it":           {noRuntime, refused, []string{"Warning CreationFailed no"}},
		"the same blocks it still":          {refused, refused, nil},
		"the same blocks it in other words": {refused, in(trainer.TrainJobPending, trainer.ReasonCreationFailed, "no!"), []string{"Warning CreationFailed no!"}},
		"it is blocked no longer":           {noRuntime, waiting, nil},
		"the pods waited for are others":    {waiting, in(trainer.TrainJobPending, trainer.ReasonWaitingForPods, "more pods"), nil},
		"it runs":                           {waiting, running, nil},
		"it is suspended":                   {running, suspended, []string{"Normal Suspended The job is suspended"}},
		"it is suspended from the start":    {fresh, suspended, []string{"Normal Suspended The job is suspended"}},
		"it stays suspended":                {suspended, suspended, nil},
		"it is resumed":                     {suspended, waiting, []string{"Normal Resumed The job was resumed"}},
		"it is resumed into a block":        {suspended, refused, []string{"Normal Resumed The job was resumed", "Warning CreationFailed no"}},
		"it completes":                      {running, complete, []string{"Normal Completed done"}},
		"it fails":                          {running, failed, []string{"Warning Failed broken"}},
		"it is late":                        {running, overdue, []string{"Warning DeadlineExceeded late"}},
		"it is late while suspended":        {suspended, overdue, []string{"Warning DeadlineExceeded late"}},
		"it asks for an unknown runtime":    {fresh, foreign, []string{"Warning TrainingRuntimeNotSupported what?"}},
		"counters of a finished job move":   {complete, complete, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range statusEvents(tc.before, tc.after) {
				got = append(got, e.Type+" "+e.Reason+" "+e.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPacer(t *testing.T) {
	job := func(version string) *trainer.TrainJob {
		return builders.TrainJob("a", func(job *trainer.TrainJob) { job.ResourceVersion = version })
	}
	cases := map[string]struct {
		job    *trainer.TrainJob
		change trainjob.Change
		after  time.Duration // since the job's last write, onto version 1
		want   time.Duration
	}{
		"news goes at once":                        {job("2"), trainjob.Substantial, 0, 0},
		"details wait out their second":            {job("2"), trainjob.Details, 300 * time.Millisecond, 700 * time.Millisecond},
		"details go after a second":                {job("2"), trainjob.Details, time.Second, 0},
		"other words for a refusal wait":           {job("2"), trainjob.Rewording, 10 * time.Second, 20 * time.Second},
		"other words for a refusal go in the end":  {job("2"), trainjob.Rewording, 30 * time.Second, 0},
		"a clock that was set back blocks nothing": {job("2"), trainjob.Details, -time.Hour, 0},
		"what our own write has replaced waits":    {job("1"), trainjob.Substantial, time.Minute, catchUp},
		"another job of the namespace is its own":  {builders.TrainJob("b"), trainjob.Details, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p pacer
			if wait := p.wait(job("1"), trainjob.Details, builders.Epoch); wait != 0 {
				t.Errorf("the first write waits %v", wait)
			}
			p.wrote(job("1"), builders.Epoch)
			if got := p.wait(tc.job, tc.change, builders.Epoch.Add(tc.after)); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
			p.forget(cache.MetaObjectToName(tc.job))
			if got := p.wait(tc.job, tc.change, builders.Epoch.Add(tc.after)); got != 0 {
				t.Errorf("waits %v for a job that was forgotten", got)
			}
		})
	}
}

// writer is a StatusWriter for a job that the API server has.
func writer(job *trainer.TrainJob) (*StatusWriter, *trainerfake.Clientset, *record.FakeRecorder) {
	client, events := fakes.Trainer(job.DeepCopy()), record.NewFakeRecorder(10)
	return NewStatusWriter(client.TrainerV1alpha1(), events), client, events
}

func TestStatusWriterWritesNothingWhenNothingDiffers(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Running", "PodsReady", builders.At(1)))
	w, client, _ := writer(job)
	if wait, err := w.Write(t.Context(), job, job.Status.DeepCopy(), builders.At(2)); err != nil || wait != 0 {
		t.Errorf("got %v, %v", wait, err)
	}
	if len(client.Actions()) > 0 {
		t.Errorf("requests %v, want none", client.Actions())
	}
}

func TestStatusWriterSendsTheDifferenceForTheVersionItWasComputedFrom(t *testing.T) {
	job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.ResourceVersion = "7" })
	w, client, events := writer(job)
	next := in(trainer.TrainJobFailed, "FailedJobs", "broken")
	if wait, err := w.Write(t.Context(), job, next, builders.At(2)); err != nil || wait != 0 {
		t.Fatalf("got %v, %v", wait, err)
	}
	if len(client.Actions()) != 1 {
		t.Fatalf("requests %v, want one", client.Actions())
	}
	patch := client.Actions()[0].(clienttesting.PatchAction)
	if patch.GetSubresource() != "status" {
		t.Errorf("the patch is of subresource %q", patch.GetSubresource())
	}
	var sent struct {
		Metadata map[string]any
		Status   map[string]any
	}
	if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"uid": "a-uid", "resourceVersion": "7"}, sent.Metadata); diff != "" {
		t.Errorf("preconditions (-want +got):\n%s", diff)
	}
	if len(sent.Status) != 3 || sent.Status["state"] != "Failed" {
		t.Errorf("sent %v, want state, reason and message alone", sent.Status)
	}
	if event := <-events.Events; event != "Warning Failed broken" {
		t.Errorf("event %q", event)
	}
}

func TestStatusWriterTellsNothingOfAWriteThatFailed(t *testing.T) {
	job := builders.TrainJob("a")
	w, client, events := writer(job)
	conflict := apierrors.NewConflict(trainer.Resource("trainjobs"), "a", errors.New("it has changed"))
	client.PrependReactor("patch", "trainjobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	next := in(trainer.TrainJobComplete, "AllJobsCompleted", "done")
	for range 2 { // a failed write does not make the next one wait
		if wait, err := w.Write(t.Context(), job, next, builders.At(2)); !apierrors.IsConflict(err) || wait != 0 {
			t.Errorf("got %v, %v, want the conflict", wait, err)
		}
	}
	if len(events.Events) > 0 {
		t.Errorf("event %q", <-events.Events)
	}
}

func TestStatusWriterHasNothingToSayOfAJobThatIsGone(t *testing.T) {
	job := builders.TrainJob("a")
	events := record.NewFakeRecorder(1)
	w := NewStatusWriter(trainerfake.NewClientset().TrainerV1alpha1(), events)
	if wait, err := w.Write(t.Context(), job, in(trainer.TrainJobComplete, "AllJobsCompleted", "done"), builders.At(2)); !apierrors.IsNotFound(err) || wait != 0 {
		t.Errorf("got %v, %v, want to hear that it is gone", wait, err)
	}
	if wait, err := w.Report(t.Context(), job, trainjob.Observed{}, builders.At(2)); err != nil || wait != 0 {
		t.Errorf("got %v, %v, want nothing", wait, err)
	}
	if len(events.Events) > 0 {
		t.Errorf("event %q", <-events.Events)
	}
}

func TestStatusWriterHoldsDetailsBack(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Running", "PodsReady", builders.At(1)), func(job *trainer.TrainJob) { job.ResourceVersion = "1" })
	w, client, _ := writer(job)
	counted := func(active int32) *trainer.TrainJobStatus {
		next := job.Status.DeepCopy()
		next.JobsStatus = []trainer.JobStatus{{Name: "node", Ready: 1, Active: active}}
		return next
	}
	if wait, err := w.Write(t.Context(), job, counted(1), builders.At(2)); err != nil || wait != 0 {
		t.Fatalf("got %v, %v", wait, err)
	}
	stale := job.DeepCopy()
	if wait, err := w.Write(t.Context(), stale, counted(2), builders.At(9)); err != nil || wait != catchUp {
		t.Errorf("got %v, %v, want to wait for the cache", wait, err)
	}
	job.ResourceVersion, job.Status = "2", *counted(1)
	if wait, err := w.Write(t.Context(), job, counted(2), builders.At(2)); err != nil || wait != time.Second {
		t.Errorf("got %v, %v, want to wait a second", wait, err)
	}
	w.Forget(cache.MetaObjectToName(job))
	if wait, err := w.Write(t.Context(), job, counted(2), builders.At(2)); err != nil || wait != 0 {
		t.Errorf("got %v, %v after the job was forgotten", wait, err)
	}
	if n := len(client.Actions()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestEmitCutsWhatAnEventCannotHold(t *testing.T) {
	for name, message := range map[string]string{
		"short": "short", "just fits": strings.Repeat("x", maxEventMessage),
		"too long": strings.Repeat("x", maxEventMessage+1), "too long in the middle of a character": strings.Repeat("é", maxEventMessage),
	} {
		t.Run(name, func(t *testing.T) {
			events := record.NewFakeRecorder(1)
			Emit(events, builders.TrainJob("a"), "Normal", "Some", message)
			got := strings.TrimPrefix(<-events.Events, "Normal Some ")
			if len(got) > maxEventMessage || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
			}
			if len(message) <= maxEventMessage && got != message {
				t.Error("a message that fits was changed")
			}
		})
	}
}

func TestReportDoesNotRepeatOnSuspensionWhatAPendingJobHasTold(t *testing.T) {
	pending := builders.State("Pending", trainer.ReasonWaitingForRuntime, builders.At(1))
	job := builders.TrainJob("a", pending, builders.Suspended(true))
	w, _, events := writer(job)
	cause := trainjob.Cause{Reason: trainer.ReasonWaitingForRuntime, Message: job.Status.Message}
	if _, err := w.Report(t.Context(), job, trainjob.Observed{Blocked: &cause}, builders.At(2)); err != nil {
		t.Fatal(err)
	}
	if event := <-events.Events; event != "Normal Suspended The job is suspended" || len(events.Events) > 0 {
		t.Errorf("event %q and %d more, want the suspension alone", event, len(events.Events))
	}
}

func TestReportTellsOfEachRestartOnce(t *testing.T) {
	job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.ResourceVersion = "1" })
	w, _, events := writer(job)
	for i, restarts := range []int32{0, 1, 1, 2} {
		js := builders.JobSetOf(job, builders.Jobs(builders.Waiting("node")))
		js.Status.Restarts = restarts
		seen, now := trainjob.Observed{JobSet: js}, builders.At(60*i)
		if _, err := w.Report(t.Context(), job, seen, now); err != nil {
			t.Fatal(err)
		}
		job.ResourceVersion, job.Status = fmt.Sprint(i+2), *trainjob.Next(job, seen, now)
	}
	var got []string
	for len(events.Events) > 0 {
		got = append(got, <-events.Events)
	}
	want := []string{
		"Warning Restarted This is attempt 2, after JobSet has restarted the job", "Warning Restarted This is attempt 3, after JobSet has restarted the job",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReportWarnsTheUserOfASuspendedJobOnce(t *testing.T) {
	job := builders.TrainJob("a", builders.Suspended(true), func(job *trainer.TrainJob) { job.ResourceVersion = "1" })
	w, _, events := writer(job)
	seen := trainjob.Observed{Blocked: &trainjob.Cause{Reason: trainer.ReasonWaitingForRuntime, Message: "there is no runtime"}}
	for range 2 {
		if _, err := w.Report(t.Context(), job, seen, builders.At(1)); err != nil {
			t.Fatal(err)
		}
		job.ResourceVersion, job.Status = "2", *trainjob.Next(job, seen, builders.At(1))
	}
	var got []string
	for len(events.Events) > 0 {
		got = append(got, <-events.Events)
	}
	want := []string{"Normal Suspended The job is suspended", "Warning WaitingForRuntime there is no runtime"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
