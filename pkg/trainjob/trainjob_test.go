package trainjob

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/lifetime"
	"github.com/trainjob/controller/test/builders"
)

func TestManagedByUs(t *testing.T) {
	cases := map[string]struct {
		managedBy *string
		want      bool
	}{
		"unset, as before the default":  {nil, true},
		"empty":                         {ptr.To(""), true},
		"this controller":               {ptr.To(trainer.ManagedByTrainJobController), true},
		"MultiKueue":                    {ptr.To(trainer.ManagedByMultiKueue), false},
		"a controller nobody has heard": {ptr.To("example.com/other"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.Spec.ManagedBy = tc.managedBy })
			expect(t, "managed by us", tc.want, ManagedByUs(job))
		})
	}
}

func TestSuspendedIsFalseWhenUnset(t *testing.T) {
	unset := func(job *trainer.TrainJob) { job.Spec.Suspend = nil }
	expect(t, "unset", false, Suspended(builders.TrainJob("a", unset)))
	expect(t, "false", false, Suspended(builders.TrainJob("a", builders.Suspended(false))))
	expect(t, "true", true, Suspended(builders.TrainJob("a", builders.Suspended(true))))
}

func TestBeingDeleted(t *testing.T) {
	deleted := func(job *trainer.TrainJob) { job.DeletionTimestamp = ptr.To(metav1.NewTime(builders.At(1))) }
	expect(t, "living", false, BeingDeleted(builders.TrainJob("a")))
	expect(t, "deleted", true, BeingDeleted(builders.TrainJob("a", deleted)))
}

func TestFinished(t *testing.T) {
	cases := map[string]struct {
		job      *trainer.TrainJob
		at       time.Time // zero: has not finished
		end      trainer.TrainJobState
		deadline bool // FailedFor DeadlineExceeded
	}{
		"new":       {job: builders.TrainJob("a")},
		"pending":   {job: builders.TrainJob("a", builders.State("Pending", "WaitingForPods", builders.At(1)))},
		"running":   {job: builders.TrainJob("a", builders.State("Running", "PodsReady", builders.At(1)))},
		"suspended": {job: builders.TrainJob("a", builders.State("Suspended", "Suspended", builders.At(1)))},
		"state says Complete but no condition does": {
			job: builders.TrainJob("a", func(job *trainer.TrainJob) { job.Status.State = trainer.TrainJobComplete }),
		},
		"complete": {
			job: builders.TrainJob("a", builders.State("Complete", "AllJobsCompleted", builders.At(7))), at: builders.At(7), end: trainer.TrainJobComplete,
		},
		"complete with a reason that reads like a deadline": {
			job: builders.TrainJob("a", builders.State("Complete", "DeadlineExceeded", builders.At(7))), at: builders.At(7), end: trainer.TrainJobComplete,
		},
		"failed for the deadline": {
			job: builders.TrainJob("a", builders.State("Failed", "DeadlineExceeded", builders.At(7))),
			at:  builders.At(7), end: trainer.TrainJobFailed, deadline: true,
		},
		"failed for something else": {
			job: builders.TrainJob("a", builders.State("Failed", "FailedJobs", builders.At(7))), at: builders.At(7), end: trainer.TrainJobFailed,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at, finished := FinishTime(tc.job)
			expect(t, "finish time", tc.at, at)
			expect(t, "has a finish time", !tc.at.IsZero(), finished)
			expect(t, "finished", !tc.at.IsZero(), Finished(tc.job))
			expect(t, "end", tc.end, End(tc.job))
			expect(t, "failed for the deadline", tc.deadline, FailedFor(tc.job, trainer.ReasonDeadlineExceeded))
		})
	}
}

func TestLimits(t *testing.T) {
	recorded := func(limits trainer.LifecycleLimits) builders.JobOption {
		return func(job *trainer.TrainJob) { job.Status.Lifecycle = &limits }
	}
	ofSpec := trainer.LifecycleLimits{TTLSecondsAfterFinished: ptr.To[int32](1), ActiveDeadlineSeconds: ptr.To[int64](2)}
	other := trainer.LifecycleLimits{TTLSecondsAfterFinished: ptr.To[int32](3), ActiveDeadlineSeconds: ptr.To[int64](4)}
	cases := map[string]struct {
		job  *trainer.TrainJob
		want trainer.LifecycleLimits
	}{
		"none": {builders.TrainJob("a"), trainer.LifecycleLimits{}},
		"those of the spec before the first sync": {builders.TrainJob("a", builders.TTL(1), builders.Deadline(2)), ofSpec},
		"those recorded, though the spec has lost them": {
			builders.TrainJob("a", recorded(ofSpec)), ofSpec,
		},
		"those recorded, though the spec says otherwise": {
			builders.TrainJob("a", builders.TTL(1), builders.Deadline(2), recorded(other)), other,
		},
		"none was recorded, so none appears later": {
			builders.TrainJob("a", builders.TTL(1), builders.Deadline(2), recorded(trainer.LifecycleLimits{})),
			trainer.LifecycleLimits{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, "limits", tc.want, Limits(tc.job)) })
	}
}

func TestLimitsAreRecordedOnce(t *testing.T) {
	job := step(builders.TrainJob("a"), 1, Observed{})
	expect(t, "without limits", &trainer.LifecycleLimits{}, job.Status.Lifecycle)
	builders.TTL(5)(job)
	builders.Deadline(6)(job)
	job = step(job, 2, Observed{})
	expect(t, "after the spec was changed", &trainer.LifecycleLimits{}, job.Status.Lifecycle)
}

func TestTTLCountsFromTheEnd(t *testing.T) {
	ended := builders.State("Failed", "FailedJobs", builders.At(100))
	job := builders.TrainJob("a", builders.TTL(15), ended)
	expect(t, "before", lifetime.Verdict{Kind: lifetime.Wait, Wait: 5 * time.Second}, TTL(job, builders.At(110)))
	expect(t, "after", lifetime.Verdict{Kind: lifetime.Expired}, TTL(job, builders.At(115)))
	never := lifetime.Verdict{Kind: lifetime.Never}
	expect(t, "without one", never, TTL(builders.TrainJob("a", ended), builders.At(1000)))
	expect(t, "of a job that has not finished", never, TTL(builders.TrainJob("a", builders.TTL(15)), builders.At(1000)))
}

func TestOwnershipOf(t *testing.T) {
	job := builders.TrainJob("a")
	ours := OwnerReference(job)
	with := func(change func(*metav1.OwnerReference)) []metav1.OwnerReference {
		ref := *ours.DeepCopy()
		change(&ref)
		return []metav1.OwnerReference{ref}
	}
	cases := map[string]struct {
		owners []metav1.OwnerReference
		want   Ownership
	}{
		"ours":                                 {[]metav1.OwnerReference{ours}, Ours},
		"ours, written by another API version": {with(func(r *metav1.OwnerReference) { r.APIVersion = "trainer.kubeflow.org/v2" }), Ours},
		"ours beside an owner that does not control": {
			append([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}}, ours), Ours,
		},
		"of an older job of the same name":   {with(func(r *metav1.OwnerReference) { r.UID = "older" }), Older},
		"of nobody":                          {nil, Foreign},
		"of a job of another name":           {with(func(r *metav1.OwnerReference) { r.Name = "b" }), Foreign},
		"of another kind of that name":       {with(func(r *metav1.OwnerReference) { r.Kind = "Job" }), Foreign},
		"of a TrainJob of another group":     {with(func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1" }), Foreign},
		"of an owner with a broken version":  {with(func(r *metav1.OwnerReference) { r.APIVersion = "a/b/c" }), Foreign},
		"ours, but not as the controller":    {with(func(r *metav1.OwnerReference) { r.Controller = nil }), Foreign},
		"of the same UID but another object": {with(func(r *metav1.OwnerReference) { r.Name, r.UID = "b", job.UID }), Foreign},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: tc.owners}}
			expect(t, "ownership", tc.want.String(), OwnershipOf(job, object).String())
		})
	}
}

func TestOwnerReference(t *testing.T) {
	// A typed lister's objects have neither kind nor apiVersion.
	job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.TypeMeta = metav1.TypeMeta{} })
	expect(t, "reference", metav1.OwnerReference{
		APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "a", UID: "a-uid",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}, OwnerReference(job))
}

func TestRetryAfterGrowsWithTheTimeInTheState(t *testing.T) {
	refused := builders.State("Pending", trainer.ReasonCreationFailed, builders.At(100))
	for now, want := range map[int]time.Duration{0: time.Second, 100: time.Second, 107: 7 * time.Second, 9000: 45 * time.Second} {
		expect(t, "wait", want, RetryAfter(builders.TrainJob("a", refused), builders.At(now)))
	}
}

func TestRecheckAfterGrowsWithTheTimeInTheState(t *testing.T) {
	cases := map[string]struct {
		job  *trainer.TrainJob
		now  time.Time
		want time.Duration
	}{
		"at first":                         {builders.TrainJob("a"), builders.At(0), 5 * time.Second},
		"with a clock behind":              {builders.TrainJob("a"), builders.At(-60), 5 * time.Second},
		"later":                            {builders.TrainJob("a"), builders.At(20), 20 * time.Second},
		"in the end":                       {builders.TrainJob("a"), builders.At(7200), time.Minute},
		"from the state and not the birth": {builders.TrainJob("a", builders.State("Pending", trainer.ReasonSnapshotConflict, builders.At(7190))), builders.At(7200), 10 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, "wait", tc.want, RecheckAfter(tc.job, tc.now)) })
	}
}

func TestInheritedIsAStatusThatIsNotOurs(t *testing.T) {
	stateless := func(job *trainer.TrainJob) { job.Status.State = "" }
	counted := func(job *trainer.TrainJob) { job.Status.JobsStatus = []trainer.JobStatus{{Name: "node", Ready: 1}} }
	ours := func(job *trainer.TrainJob) { job.Status.Lifecycle = &trainer.LifecycleLimits{} }
	suspended := builders.State("Suspended", "Suspended", builders.At(1))
	cases := map[string]struct {
		opts []builders.JobOption
		want bool
	}{
		"a new job": {nil, false},
		"one that another controller has suspended":  {[]builders.JobOption{suspended, stateless}, true},
		"one that another controller has seen run":   {[]builders.JobOption{counted}, true},
		"one whose status we have written":           {[]builders.JobOption{suspended, ours}, false},
		"one of ours that has lost its status.state": {[]builders.JobOption{suspended, counted, ours, stateless}, false},
		"one of ours that has lost its limits":       {[]builders.JobOption{suspended}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Inherited(builders.TrainJob("a", tc.opts...)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
