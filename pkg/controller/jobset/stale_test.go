package jobset

import (
	"errors"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func generation(n int64) builders.JobOption {
	return func(job *trainer.TrainJob) { job.Generation = n }
}

func TestSyncCreatesNothingForAJobThatTheCacheIsBehindOf(t *testing.T) {
	cases := map[string]struct {
		cached, live *trainer.TrainJob
		want         bool
	}{
		"a new job is not asked about": {
			builders.TrainJob("a"), builders.TrainJob("a", builders.Suspended(true), generation(2)), true,
		},
		"a job that was resumed and is as the cache says": {
			builders.TrainJob("a", generation(2)), builders.TrainJob("a", generation(2)), true,
		},
		"a job that was resumed and has been suspended again": {
			builders.TrainJob("a", generation(2)), builders.TrainJob("a", builders.Suspended(true), generation(3)), false,
		},
		"a job that has other patches by now": {
			builders.TrainJob("a", generation(2)), builders.TrainJob("a", generation(4)), false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.cached)
			f.cached("configmaps", snapshotOf(t, tc.cached))
			if err := f.trainer.Tracker().Update(trainer.SchemeGroupVersion.WithResource("trainjobs"), tc.live, theJob.Namespace); err != nil {
				t.Fatal(err)
			}
			result, err := f.sync()
			if err != nil || (!tc.want && result.After != lookAgain) {
				t.Errorf("got %v, %v, want to look again", result, err)
			}
			if got := slices.Contains(f.writes(), "create jobsets"); got != tc.want {
				t.Errorf("the JobSet was created: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestSyncResumesNoJobSetWithAJobThatStillRuns(t *testing.T) {
	job := builders.TrainJob("a")
	js := builders.JobSetOf(job, builders.HeldBack(true), upToDate(job))
	child := func(suspended bool, owner *jobset.JobSet, conditions ...batchv1.JobCondition) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: js.Namespace, Name: "a-node-0", Labels: map[string]string{jobset.JobSetNameKey: js.Name},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, jobset.GroupVersion.WithKind("JobSet"))},
			},
			Spec: batchv1.JobSpec{Suspend: &suspended}, Status: batchv1.JobStatus{Conditions: conditions},
		}
	}
	another := builders.JobSetOf(builders.TrainJob("a", builders.UID("another")))
	cases := map[string]struct {
		child *batchv1.Job
		want  bool
	}{
		"all are suspended":              {child(true, js), true},
		"one still runs":                 {child(false, js), false},
		"one has ended before":           {child(false, js, batchv1.JobCondition{Type: batchv1.JobComplete, Status: "True"}), true},
		"one belongs to an older JobSet": {child(false, another), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.cached("jobsets", js)
			f.live(js)
			if err := f.core.Tracker().Add(tc.child); err != nil {
				t.Fatal(err)
			}
			result, err := f.sync()
			if err != nil || (!tc.want && result.After != lookAgain) {
				t.Errorf("got %v, %v, want to look again", result, err)
			}
			if got := slices.Contains(f.writes(), "patch jobsets"); got != tc.want {
				t.Errorf("the JobSet was resumed: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestSyncTellsOfAJobSetThatTakesNoChange(t *testing.T) {
	job := builders.TrainJob("a")
	f := newFixture(t, job)
	js := builders.JobSetOf(job, builders.HeldBack(true), upToDate(job))
	f.cached("jobsets", js)
	f.live(js)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "jobsets"}, "a", errors.New("not today"))
	f.jobSet.PrependReactor("patch", "jobsets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
	if _, err := f.sync(); !errors.Is(err, refusal) {
		t.Errorf("error %v does not bring it back for another try", err)
	}
	reason, message := f.pending()
	if reason != trainer.ReasonCreationFailed || !strings.Contains(message, "not today") {
		t.Errorf("the job is Pending for %s: %s", reason, message)
	}
}
