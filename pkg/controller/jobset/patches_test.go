package jobset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// onNodes patches the pods of the trainer job to run on nodes with a label.
func onNodes(key string) builders.JobOption {
	return builders.Patches(trainer.RuntimePatch{
		Manager: "example.com/queue",
		TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{
			ReplicatedJobs: []trainer.ReplicatedJobPatch{{Name: "node", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{
				Template: &trainer.PodTemplatePatch{Spec: &trainer.PodSpecPatch{NodeSelector: map[string]string{key: "yes"}}},
			}}}},
		}}},
	})
}

// built is the JobSet as it was made for a job, held back since.
func built(t *testing.T, job *trainer.TrainJob) *jobset.JobSet {
	t.Helper()
	objects, cause := (&Controller{decoder: runtimesnapshot.NewDecoder()}).objectsOf(job, snapshotOf(t, job))
	if cause != nil {
		t.Fatal(cause)
	}
	js := objects.JobSet
	js.UID = "jobset-of-a"
	builders.HeldBack(true)(js)
	return js
}

func (f *fixture) jobSetNow() *jobset.JobSet {
	f.t.Helper()
	js, err := f.jobSet.JobsetV1alpha2().JobSets(theJob.Namespace).Get(f.t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return js
}

func TestSyncBringsASuspendedJobSetUpToDate(t *testing.T) {
	cases := map[string]struct {
		before, after []builders.JobOption
		remakes       string // the replicatedJobs whose child Jobs have to go
	}{
		"what is added reaches the Jobs there are":          {nil, []builders.JobOption{onNodes("new")}, ""},
		"what is removed does so only by making them again": {[]builders.JobOption{onNodes("old")}, []builders.JobOption{onNodes("new")}, "node"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", tc.after...)
			js := built(t, builders.TrainJob("a", tc.before...))
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			f.cached("jobsets", js)
			f.live(js.DeepCopy())
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites("update jobsets", "patch trainjobs/status")
			got := f.jobSetNow()
			want := map[string]string{"new": "yes"}
			if diff := cmp.Diff(want, got.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector); diff != "" {
				t.Errorf("nodeSelector (-want +got):\n%s", diff)
			}
			if got.Annotations[trainer.AnnotationPatchesHash] != render.PatchesHash(job.Spec.RuntimePatches) {
				t.Error("the JobSet does not say which patches it has")
			}
			if got.Annotations[annotationRemake] != tc.remakes {
				t.Errorf("the Jobs of %q are to be made again, want %q", got.Annotations[annotationRemake], tc.remakes)
			}
			if got.Spec.Suspend == nil || !*got.Spec.Suspend {
				t.Error("the JobSet goes on in the write that changes it")
			}
		})
	}
}

func TestSyncLeavesAJobSetThatIsNotTheOneItSaw(t *testing.T) {
	job := builders.TrainJob("a", onNodes("new"))
	cases := map[string]func(*jobset.JobSet){
		"it is another of the name": func(js *jobset.JobSet) { js.UID = "newer" },
		"it runs by now":            func(js *jobset.JobSet) { js.Spec.Suspend = new(false) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			js := built(t, builders.TrainJob("a"))
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			f.cached("jobsets", js)
			live := js.DeepCopy()
			change(live)
			f.live(live)
			if result, err := f.sync(); err != nil || result.After != lookAgain {
				t.Errorf("got %v, %v, want to look again after %v", result, err, lookAgain)
			}
			f.wantWrites("patch trainjobs/status")
		})
	}
}

func TestSyncCannotBringAJobSetUpToDateWithoutASnapshot(t *testing.T) {
	job := builders.TrainJob("a", onNodes("new"))
	f := newFixture(t, job)
	f.cached("jobsets", built(t, builders.TrainJob("a")))
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	if reason, _ := f.pending(); reason != trainer.ReasonSnapshotInvalid {
		t.Errorf("pending for %s, want %s", reason, trainer.ReasonSnapshotInvalid)
	}
	f.wantWrites("patch trainjobs/status")
}

// child is a Job of a JobSet.
func child(js *jobset.JobSet, name, replicatedJob string, change func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: js.Namespace, Name: name, UID: types.UID(name + "-uid"),
			Labels:          map[string]string{jobset.JobSetNameKey: js.Name, jobset.ReplicatedJobNameKey: replicatedJob},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(js, jobset.GroupVersion.WithKind("JobSet"))},
		},
		Spec: batchv1.JobSpec{Suspend: new(true)},
	}
	if change != nil {
		change(job)
	}
	return job
}

func TestSyncMakesAgainOnlyTheJobsThatHaveToBe(t *testing.T) {
	job := builders.TrainJob("a", onNodes("new"))
	js := built(t, job)
	noted("node,other")(js)
	finished := func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
	f := newFixture(t, job)
	f.cached("jobsets", js)
	f.live(js.DeepCopy())
	for _, object := range []*batchv1.Job{
		child(js, "node-0", "node", nil),
		child(js, "other-0", "other", nil),
		child(js, "finished", "node", finished),
		child(js, "initializer", "dataset-initializer", nil),
		child(js, "foreign", "node", func(job *batchv1.Job) { job.OwnerReferences = nil }),
	} {
		if err := f.core.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	left, err := f.core.BatchV1().Jobs(js.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	if diff := cmp.Diff([]string{"finished", "foreign", "initializer"}, names); diff != "" {
		t.Errorf("Jobs that are left (-want +got):\n%s", diff)
	}
	if f.jobSetNow().Annotations[annotationRemake] != "" {
		t.Error("the note about Jobs to be made again is still on the JobSet")
	}
}

func TestSyncWaitsForAJobThatIsNotSuspendedYet(t *testing.T) {
	job := builders.TrainJob("a", onNodes("new"))
	js := built(t, job)
	noted("node")(js)
	f := newFixture(t, job)
	f.cached("jobsets", js)
	f.live(js.DeepCopy())
	if err := f.core.Tracker().Add(child(js, "node-0", "node", func(job *batchv1.Job) { job.Spec.Suspend = nil })); err != nil {
		t.Fatal(err)
	}
	if result, err := f.sync(); err != nil || result.After != lookAgain {
		t.Errorf("got %v, %v, want to look again after %v", result, err, lookAgain)
	}
	f.wantWrites("patch trainjobs/status")
	if f.jobSetNow().Annotations[annotationRemake] == "" {
		t.Error("the note about Jobs to be made again is gone")
	}
}
