package trainjob

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// walk is one job whose status is computed again and again from random observations,
// while other clients change it in between.
type walk struct {
	t      *testing.T
	random *rand.Rand
	job    *trainer.TrainJob
	now    time.Time
	// limits of the spec when the first status was computed.
	limits *trainer.LifecycleLimits
	// meddled: another writer has set a terminal condition, which we do not tidy up.
	meddled bool
}

// TestPromisesHoldOnEveryPath walks thousands of random observations and checks after
// each all that is promised about a status. The seeds are fixed.
func TestPromisesHoldOnEveryPath(t *testing.T) {
	const jobs, steps = 150, 40
	seen := map[string]int{}
	for seed := range jobs {
		w := &walk{t: t, random: rand.New(rand.NewSource(int64(seed))), now: builders.Epoch}
		w.job = builders.TrainJob("a", builders.TTL(60), builders.Deadline(600), builders.Suspended(w.one(2)))
		for range steps {
			before := w.job.Status.State
			w.observe()
			seen[fmt.Sprintf("%s to %s", before, w.job.Status.State)]++
			w.othersWrite()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	// A walk that never gets anywhere would prove nothing.
	for _, from := range []trainer.TrainJobState{trainer.TrainJobPending, trainer.TrainJobSuspended, trainer.TrainJobRunning} {
		for _, to := range conditionTypes {
			if seen[fmt.Sprintf("%s to %s", from, to)] == 0 {
				t.Errorf("no walk went from %s to %s", from, to)
			}
		}
	}
}

// one is true once in n times.
func (w *walk) one(n int) bool { return w.random.Intn(n) == 0 }

// stamp is the time as the API stores it.
func (w *walk) stamp() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }

// observe computes the next status from a random observation, checks it, and writes it.
func (w *walk) observe() {
	w.now = w.now.Add(time.Duration(w.random.Intn(5000)) * time.Millisecond)
	if w.limits == nil {
		w.limits = ptr.To(Limits(w.job))
	}
	seen := w.anything()
	job, copyOfSeen := w.job.DeepCopy(), copyOf(seen)
	next := Next(w.job, seen, w.now)

	w.same("the job given to Next", job, w.job)
	w.same("the observation given to Next", copyOfSeen, seen)
	w.checkState(next)
	w.checkOthersFields(next)
	w.checkTimes(next)
	w.checkWrite(next)

	w.job.Status = *next
	w.now = w.now.Add(time.Hour)
	w.same("status of the same observation an hour later", next, Next(w.job, w.shuffled(seen), w.now))
}

// anything is a random observation. Ends are rare, so that walks become long.
func (w *walk) anything() Observed {
	var seen Observed
	if !w.one(4) {
		seen.JobSet = w.jobSet()
	}
	if w.one(4) {
		seen.Blocked = &Cause{trainer.ReasonCreationFailed, fmt.Sprint("try ", w.random.Intn(3))}
	}
	if w.one(60) {
		seen.Failure = &Cause{trainer.ReasonDeadlineExceeded, "too long"}
	}
	if w.one(3) {
		seen.Snapshot = &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", Digest: fmt.Sprint(w.random.Intn(2))}
		seen.Nodes = ptr.To(w.random.Int31n(3))
	}
	return seen
}

func (w *walk) jobSet() *jobset.JobSet {
	js := builders.JobSetOf(w.job, builders.HeldBack(w.one(3)))
	for _, name := range []string{"init", "launcher", "node"} {
		if w.one(4) {
			continue
		}
		js.Status.ReplicatedJobsStatus = append(js.Status.ReplicatedJobsStatus, jobset.ReplicatedJobStatus{
			Name: name, Ready: w.random.Int31n(4) / 3, Active: w.random.Int31n(2),
			Succeeded: w.random.Int31n(2), Failed: w.random.Int31n(2), Suspended: w.random.Int31n(2),
		})
	}
	if w.one(60) {
		builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done")(js)
	}
	if w.one(60) {
		builders.Ended(jobset.JobSetFailed, "FailedJobs", "lost")(js)
	}
	return js
}

// shuffled is the same observation with the JobSet's counters in another order.
func (w *walk) shuffled(seen Observed) Observed {
	seen = copyOf(seen)
	if seen.JobSet != nil {
		list := seen.JobSet.Status.ReplicatedJobsStatus
		w.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return seen
}

// othersWrite lets users and other controllers change the job.
func (w *walk) othersWrite() {
	status := &w.job.Status
	switch w.random.Intn(14) {
	case 0, 1, 2:
		w.job.Spec.Suspend = ptr.To(!Suspended(w.job))
		w.job.Generation++
	case 3:
		// A client with older types writes the whole object.
		w.job.Spec.TTLSecondsAfterFinished, w.job.Spec.ActiveDeadlineSeconds = nil, nil
		w.job.Generation++
	case 4:
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: []string{"PreflightPassed", "example.com/Other"}[w.random.Intn(2)], Reason: "Theirs",
			Status:  []metav1.ConditionStatus{"True", "False", "Unknown"}[w.random.Intn(3)],
			Message: fmt.Sprint(w.random.Intn(5)), LastTransitionTime: w.stamp(),
		})
	case 5:
		status.TrainerStatus = &trainer.TrainerStatus{
			ProgressPercentage: ptr.To(w.random.Int31n(100)), LastUpdatedTime: w.stamp(),
		}
	case 6:
		status.State = append(conditionTypes, "")[w.random.Intn(len(conditionTypes)+1)]
	case 7:
		w.meddle(conditionTypes[w.random.Intn(3)]) // a state that is not terminal
	case 8:
		if w.one(8) {
			w.meddle(conditionTypes[3+w.random.Intn(2)])
			w.meddled = true
		}
	}
}

// meddle sets a state condition as another writer would: without regard to the rest.
func (w *walk) meddle(state trainer.TrainJobState) {
	if Finished(w.job) {
		w.meddled = true
	}
	meta.SetStatusCondition(&w.job.Status.Conditions, metav1.Condition{
		Type: string(state), Status: metav1.ConditionTrue, Reason: "Theirs", LastTransitionTime: w.stamp(),
	})
}

func (w *walk) checkState(next *trainer.TrainJobStatus) {
	w.t.Helper()
	if !w.meddled {
		verdictOf(w.t, next)
	}
	if !Finished(w.job) {
		if next.State == "" || next.Reason == "" {
			w.t.Errorf("state %q for the reason %q", next.State, next.Reason)
		}
		return
	}
	want := w.job.Status.DeepCopy()
	want.JobsStatus = next.JobsStatus
	if end := terminalCondition(w.job); want.State != trainer.TrainJobState(end.Type) { // another writer has changed it
		want.State, want.Reason, want.Message = trainer.TrainJobState(end.Type), end.Reason, end.Message
	}
	w.same("status of a finished job", want, next)
	w.same("end of a finished job", terminalCondition(w.job).Type, string(next.State))
}

func (w *walk) checkOthersFields(next *trainer.TrainJobStatus) {
	w.t.Helper()
	w.same("trainerStatus", w.job.Status.TrainerStatus, next.TrainerStatus)
	w.same("conditions of others", foreign(w.job.Status.Conditions), foreign(next.Conditions))
	if w.job.Status.Lifecycle != nil || !Finished(w.job) {
		w.same("lifecycle", w.limits, next.Lifecycle)
	}
}

func foreign(conditions []metav1.Condition) (out []metav1.Condition) {
	for _, c := range conditions {
		if !isState(c.Type) {
			out = append(out, c)
		}
	}
	return out
}

func (w *walk) checkTimes(next *trainer.TrainJobStatus) {
	w.t.Helper()
	before := w.job.Status
	stamp := w.stamp()
	for _, c := range next.Conditions {
		want := stamp
		if old := meta.FindStatusCondition(before.Conditions, c.Type); old != nil && old.Status == c.Status {
			want = old.LastTransitionTime
		}
		w.same("lastTransitionTime of "+c.Type, want, c.LastTransitionTime)
	}
	if !Finished(w.job) {
		want := &stamp
		if before.State == next.State && before.LastTransitionTime != nil {
			want = before.LastTransitionTime
		}
		w.same("lastTransitionTime of the state", want, next.LastTransitionTime)
	}
	if before.ResumeTime != nil && next.ResumeTime == nil {
		w.t.Error("a resume is forgotten")
	}
	if before.StartTime != nil {
		w.same("startTime", before.StartTime, next.StartTime)
	}
	switch {
	case w.meddled:
	case Finished(w.job):
		w.same("completionTime", before.CompletionTime, next.CompletionTime)
	case next.State == trainer.TrainJobComplete || next.State == trainer.TrainJobFailed:
		w.same("completionTime", &stamp, next.CompletionTime)
	default:
		w.same("completionTime", (*metav1.Time)(nil), next.CompletionTime)
	}
}

// checkWrite checks that the patch does what it says, and only if there is something
// to write.
func (w *walk) checkWrite(next *trainer.TrainJobStatus) {
	w.t.Helper()
	patch, err := StatusPatch(w.job, next)
	if err != nil {
		w.t.Error(err)
		return
	}
	if change := Compare(w.job, next); (change == Same) != (patch == nil) {
		w.t.Errorf("change %d comes with patch %q", change, patch)
	}
	if !w.one(4) {
		return // applying it is what takes the time
	}
	w.same("patched status", next, patched(w.t, w.job, patch))
}

func (w *walk) same(what string, want, got any) {
	w.t.Helper()
	if !equality.Semantic.DeepEqual(want, got) { // cmp.Diff is too slow for so many
		w.t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

func copyOf(seen Observed) Observed {
	seen.JobSet = seen.JobSet.DeepCopy()
	seen.Snapshot = seen.Snapshot.DeepCopy()
	for _, cause := range []**Cause{&seen.Blocked, &seen.Failure} {
		if *cause != nil {
			*cause = ptr.To(**cause)
		}
	}
	if seen.Nodes != nil {
		seen.Nodes = ptr.To(*seen.Nodes)
	}
	return seen
}
