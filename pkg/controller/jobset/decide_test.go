package jobset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// upToDate says that a JobSet was built with the patches of the job.
func upToDate(job *trainer.TrainJob) builders.JobSetOption {
	return func(js *jobset.JobSet) {
		metav1.SetMetaDataAnnotation(&js.ObjectMeta, trainer.AnnotationPatchesHash, render.PatchesHash(job.Spec.RuntimePatches))
	}
}

func noted(jobs string) builders.JobSetOption {
	return func(js *jobset.JobSet) { metav1.SetMetaDataAnnotation(&js.ObjectMeta, annotationRemake, jobs) }
}

func ownedBy(owner *trainer.TrainJob) builders.JobSetOption {
	return func(js *jobset.JobSet) { js.OwnerReferences = builders.JobSetOf(owner).OwnerReferences }
}

func deleted(js *jobset.JobSet) { js.DeletionTimestamp = &metav1.Time{Time: builders.At(9)} }

func beingDeleted(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: builders.At(9)} }

// snapshotOf is the snapshot of a job, as the API server would return it.
func snapshotOf(t *testing.T, job *trainer.TrainJob) *corev1.ConfigMap {
	t.Helper()
	runtime := builders.ClusterTrainingRuntime("torch", builders.TorchSpec())
	cm, err := runtimesnapshot.Encode(job, runtimesnapshot.FromClusterTrainingRuntime(runtime))
	if err != nil {
		t.Fatal(err)
	}
	cm.UID = "snapshot-uid"
	return cm
}

func TestDecideWithoutAJobSet(t *testing.T) {
	cases := map[string]struct {
		job      []builders.JobOption
		snapshot bool
		want     action
	}{
		"a job with its snapshot gets one":             {nil, true, create},
		"a job without a snapshot waits for it":        {nil, false, keep},
		"a suspended job costs no JobSet":              {[]builders.JobOption{builders.Suspended(true)}, true, keep},
		"nothing is created for a job that is deleted": {[]builders.JobOption{beingDeleted}, true, keep},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", tc.job...)
			var seen observation
			if tc.snapshot {
				seen.snapshot = snapshotOf(t, job)
			}
			got := decide(job, seen)
			if got.action != tc.want || got.blocked != nil {
				t.Errorf("got %v (blocked: %v), want %v", got.action, got.blocked, tc.want)
			}
		})
	}
}

func builtWithOtherPatches(js *jobset.JobSet) {
	metav1.SetMetaDataAnnotation(&js.ObjectMeta, trainer.AnnotationPatchesHash, "other")
}

// A JobSet without the hash of patches was made by another controller.
func TestDecideWithTheJobSetOfAnotherController(t *testing.T) {
	held := builders.HeldBack(true)
	cases := map[string]struct {
		suspended, snapshot bool
		jobSet              builders.JobSetOption
		want                action
	}{
		"one that runs is left alone":                      {false, true, builders.HeldBack(false), keep},
		"a suspended one is brought up to date":            {true, true, held, refresh},
		"a suspended one waits until there is a snapshot":  {true, false, held, keep},
		"one to be resumed is brought up to date first":    {false, true, held, refresh},
		"one to be resumed without a snapshot is told why": {false, false, held, refresh},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", builders.Suspended(tc.suspended))
			seen := observation{jobSet: builders.JobSetOf(job, tc.jobSet)}
			if tc.snapshot {
				seen.snapshot = snapshotOf(t, job)
			}
			if got := decide(job, seen); got.action != tc.want || got.blocked != nil {
				t.Errorf("got %v (blocked: %v), want %v", got.action, got.blocked, tc.want)
			}
		})
	}
}

func TestDecideWithTheJobsOwnJobSet(t *testing.T) {
	suspended := []builders.JobOption{builders.Suspended(true)}
	ended := builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done")
	held := builders.HeldBack(true)
	cases := map[string]struct {
		job    []builders.JobOption
		jobSet []builders.JobSetOption
		stale  bool // built with other patches
		want   action
	}{
		"a running one is never changed":                           {nil, nil, true, keep},
		"a running one is suspended with its job":                  {suspended, []builders.JobSetOption{builders.HeldBack(false)}, false, suspend},
		"a suspended one goes on with its job":                     {nil, []builders.JobSetOption{held}, false, resume},
		"one that has not suspended its Jobs yet must do so first": {nil, []builders.JobSetOption{builders.ToldToHoldBack()}, false, keep},
		"a suspended one stays so with its job":                    {suspended, []builders.JobSetOption{held}, false, keep},
		"new patches come before going on":                         {nil, []builders.JobSetOption{held}, true, refresh},
		"new patches are taken while the job is suspended":         {suspended, []builders.JobSetOption{held}, true, refresh},
		"what patches removed goes before going on":                {nil, []builders.JobSetOption{held, noted("node")}, false, remake},
		"newer patches come before what older ones removed":        {nil, []builders.JobSetOption{held, noted("node")}, true, refresh},
		"a finished one is left alone":                             {suspended, []builders.JobSetOption{builders.HeldBack(false), ended}, false, keep},
		"a finished one is not brought up to date":                 {nil, []builders.JobSetOption{held, ended}, true, keep},
		"one that is being deleted is left alone":                  {nil, []builders.JobSetOption{held, deleted}, false, keep},
		"that of a job which is being deleted is left alone":       {[]builders.JobOption{beingDeleted}, []builders.JobSetOption{held}, false, keep},
		"that of a job deleted while suspended is not suspended":   {[]builders.JobOption{beingDeleted, builders.Suspended(true)}, nil, false, keep},
		"one without a word on suspension runs and is left alone":  {nil, []builders.JobSetOption{func(js *jobset.JobSet) { js.Spec.Suspend = nil }}, false, keep},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", tc.job...)
			opts := tc.jobSet
			if tc.stale {
				opts = append(opts, builtWithOtherPatches)
			} else {
				opts = append(opts, upToDate(job))
			}
			js := builders.JobSetOf(job, opts...)
			before := [2]any{job.DeepCopy(), js.DeepCopy()}
			got := decide(job, observation{jobSet: js})
			if got.action != tc.want || got.blocked != nil {
				t.Errorf("got %v (blocked: %v), want %v", got.action, got.blocked, tc.want)
			}
			if diff := cmp.Diff(before, [2]any{job, js}); diff != "" {
				t.Errorf("decide changed what it was given (-before +after):\n%s", diff)
			}
		})
	}
}

func TestDecideWithTheJobSetOfAnother(t *testing.T) {
	job := builders.TrainJob("a")
	cases := map[string]struct {
		owner   builders.JobSetOption
		message string
	}{
		"of an earlier job of the name": {ownedBy(builders.TrainJob("a", builders.UID("older"))), "an earlier TrainJob of this name"},
		"of nobody":                     {func(js *jobset.JobSet) { js.OwnerReferences = nil }, "does not belong to this TrainJob"},
		"of a job of another name":      {ownedBy(builders.TrainJob("b")), "does not belong to this TrainJob"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			js := builders.JobSetOf(job, tc.owner, builders.HeldBack(true))
			seen := observation{jobSet: js, snapshot: snapshotOf(t, job)}
			got := decide(job, seen)
			if got.action != keep || got.blocked == nil || got.blocked.Reason != trainer.ReasonJobSetConflict {
				t.Fatalf("got %v (blocked: %v), want %v and %s", got.action, got.blocked, keep, trainer.ReasonJobSetConflict)
			}
			if !strings.Contains(got.blocked.Message, tc.message) || !strings.Contains(got.blocked.Message, `JobSet "a"`) {
				t.Errorf("message %q does not name the JobSet and say %q", got.blocked.Message, tc.message)
			}
			if seen.own(job) != nil {
				t.Error("the JobSet of another counts as the job's own")
			}
		})
	}
}

func TestObjectsOfSaysWhyAJobCannotBeBuilt(t *testing.T) {
	cases := map[string]struct {
		spoil   func(*trainer.TrainJob, **corev1.ConfigMap)
		reason  string
		message string
	}{
		"the snapshot is gone": {
			func(_ *trainer.TrainJob, cm **corev1.ConfigMap) { *cm = nil },
			trainer.ReasonSnapshotInvalid, "is gone",
		},
		"the snapshot was edited": {
			func(job *trainer.TrainJob, cm **corev1.ConfigMap) {
				job.Status.RuntimeSnapshot = runtimesnapshot.Reference(*cm)
				(*cm).Data[runtimesnapshot.DataKey] += "# edited"
			},
			trainer.ReasonSnapshotInvalid, "changed after the snapshot was taken",
		},
		"the snapshot is not YAML": {
			func(_ *trainer.TrainJob, cm **corev1.ConfigMap) { (*cm).Data[runtimesnapshot.DataKey] = "{" },
			trainer.ReasonSnapshotInvalid, "delete the ConfigMap to take a new snapshot",
		},
		"the snapshot is empty": {
			func(_ *trainer.TrainJob, cm **corev1.ConfigMap) { (*cm).Data = nil },
			trainer.ReasonSnapshotInvalid, "has no key data.runtime",
		},
		"the snapshot has nothing to render": {
			func(_ *trainer.TrainJob, cm **corev1.ConfigMap) {
				text := (*cm).Data[runtimesnapshot.DataKey]
				(*cm).Data[runtimesnapshot.DataKey] = strings.ReplaceAll(text, "name: node", "name: main")
			},
			trainer.ReasonRuntimeInvalid, "as it was when its snapshot",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			cm := snapshotOf(t, job)
			tc.spoil(job, &cm)
			objects, cause := (&Controller{decoder: runtimesnapshot.NewDecoder()}).objectsOf(job, cm)
			if objects != nil || cause == nil {
				t.Fatalf("got %v, %v, want a cause alone", objects, cause)
			}
			if cause.Reason != tc.reason || !strings.Contains(cause.Message, tc.message) {
				t.Errorf("got %s: %s\nwant %s: …%s…", cause.Reason, cause.Message, tc.reason, tc.message)
			}
		})
	}
}

func TestObjectsOfBuildsTheSameFromASnapshotTakenAnew(t *testing.T) {
	job := builders.TrainJob("a")
	cm := snapshotOf(t, job)
	job.Status.RuntimeSnapshot = &trainer.RuntimeSnapshotReference{Name: cm.Name, UID: "the one before", Digest: "sha256:0"}
	objects, cause := (&Controller{decoder: runtimesnapshot.NewDecoder()}).objectsOf(job, cm)
	if cause != nil {
		t.Fatal(cause)
	}
	if objects.Nodes != 2 || objects.JobSet.Name != "a" {
		t.Errorf("got JobSet %q on %d nodes, want a on 2", objects.JobSet.Name, objects.Nodes)
	}
}
