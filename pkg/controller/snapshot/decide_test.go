package snapshot

import (
	gocmp "cmp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

// runtimeOf is a runtime as the controller reads it.
func runtimeOf(spec trainer.TrainingRuntimeSpec) *runtimesnapshot.Runtime {
	return runtimesnapshot.FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("torch", spec))
}

// snapshotOf is the snapshot of a job, as the API server would return it.
func snapshotOf(t *testing.T, job *trainer.TrainJob) *corev1.ConfigMap {
	t.Helper()
	cm, err := runtimesnapshot.Encode(job, runtimeOf(builders.TorchSpec()))
	if err != nil {
		t.Fatal(err)
	}
	cm.UID = "snapshot-uid"
	return cm
}

func unusable() trainer.TrainingRuntimeSpec {
	spec := builders.TorchSpec()
	second := spec.Template.Spec.ReplicatedJobs[0].DeepCopy()
	second.Name = "second" // two jobs that train
	spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, *second)
	return spec
}

func huge() trainer.TrainingRuntimeSpec {
	spec := builders.TorchSpec()
	metav1.SetMetaDataAnnotation(&spec.Template.Spec.ReplicatedJobs[0].Template.ObjectMeta, "much", strings.Repeat("x", runtimesnapshot.MaxBytes))
	return spec
}

func TestDecide(t *testing.T) {
	job := builders.TrainJob("a")
	older := builders.TrainJob("a", builders.UID("older"))
	strangers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-runtime-snapshot"}}
	slurm := builders.OpaqueRuntime("slurm.example.com", "SlurmRuntime", "big")
	cases := map[string]struct {
		job     *trainer.TrainJob // the job above if nil
		seen    observation
		creates bool
		blocked string
		failure string
		message string
	}{
		"a usable runtime is frozen":             {seen: observation{runtime: runtimeOf(builders.TorchSpec())}, creates: true},
		"a snapshot of the job's own is enough":  {seen: observation{existing: snapshotOf(t, job)}},
		"its own snapshot needs no runtime kind": {seen: observation{existing: snapshotOf(t, job), unsupported: true}},
		"that of an earlier job is waited for": {
			seen:    observation{existing: snapshotOf(t, older), runtime: runtimeOf(builders.TorchSpec())},
			blocked: trainer.ReasonSnapshotConflict, message: "of an earlier TrainJob",
		},
		"a stranger's ConfigMap is in the way": {
			seen:    observation{existing: strangers, runtime: runtimeOf(builders.TorchSpec())},
			blocked: trainer.ReasonSnapshotConflict, message: `ConfigMap "a-runtime-snapshot" exists and does not belong`,
		},
		"an unknown kind of runtime fails the job": {
			seen:    observation{unsupported: true},
			failure: trainer.ReasonTrainingRuntimeNotSupported, message: `ClusterTrainingRuntime "torch"`,
		},
		"and is told which kinds there are": {
			job:     builders.TrainJob("a", slurm),
			seen:    observation{unsupported: true, allowed: sets.New(schema.GroupKind{Group: "example.com", Kind: "Recipe"})},
			failure: trainer.ReasonTrainingRuntimeNotSupported, message: "and for builders of their own Recipe.example.com; create the job again",
		},
		"an unknown kind does not fail a job that has had its snapshot": {
			job: builders.TrainJob("a", slurm, hadSnapshot), seen: observation{unsupported: true},
			blocked: trainer.ReasonWaitingForRuntime, message: "is not listed in --opaque-runtime-kinds any more",
		},
		"nor one whose builder is at work": {
			job: builders.TrainJob("a", slurm, builders.State("Running", "Started", builders.At(1))), seen: observation{unsupported: true},
			blocked: trainer.ReasonWaitingForRuntime, message: "is not listed in --opaque-runtime-kinds any more",
		},
		"an opaque runtime is frozen as it is": {
			job: builders.TrainJob("a", slurm), seen: observation{opaque: sought{runtime: slurmRuntime("gpu")}}, creates: true,
		},
		"a missing one is waited for": {
			job: builders.TrainJob("a", slurm), seen: observation{opaque: sought{missing: waiting("not there")}},
			blocked: trainer.ReasonWaitingForRuntime, message: "not there",
		},
		"one that is too large is not frozen": {
			job: builders.TrainJob("a", slurm), seen: observation{opaque: sought{runtime: slurmRuntime(strings.Repeat("x", runtimesnapshot.MaxBytes))}},
			blocked: trainer.ReasonSnapshotTooLarge, message: `SlurmRuntime "big" takes`,
		},
		"a missing runtime is waited for": {
			blocked: trainer.ReasonWaitingForRuntime, message: `ClusterTrainingRuntime "torch", which does not exist`,
		},
		"a runtime that cannot be used is not frozen": {
			seen:    observation{runtime: runtimeOf(unusable())},
			blocked: trainer.ReasonRuntimeInvalid, message: trainer.LabelAncestorStep,
		},
		"a runtime that is too large is not frozen": {
			seen:    observation{runtime: runtimeOf(huge())},
			blocked: trainer.ReasonSnapshotTooLarge, message: "a snapshot holds at most",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := gocmp.Or(tc.job, job)
			before := job.DeepCopy()
			got := decide(job, tc.seen)
			if (got.create != nil) != tc.creates {
				t.Errorf("creates %v, want %t", got.create, tc.creates)
			}
			message := ""
			if got.blocked != nil {
				message = got.blocked.Message
				expectReason(t, "blocked", got.blocked.Reason, tc.blocked)
			} else {
				expectReason(t, "blocked", "", tc.blocked)
			}
			if got.failure != nil {
				message = got.failure.Message
				expectReason(t, "failure", got.failure.Reason, tc.failure)
			} else {
				expectReason(t, "failure", "", tc.failure)
			}
			if !strings.Contains(message, tc.message) {
				t.Errorf("message %.300q does not say %q", message, tc.message)
			}
			if diff := cmp.Diff(before, job); diff != "" {
				t.Errorf("decide changed the job (-before +after):\n%s", diff)
			}
		})
	}
}

func expectReason(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s for %q, want %q", what, got, want)
	}
}

func TestDescribeNamesTheRuntimeAsTheUserWouldFindIt(t *testing.T) {
	group := "example.com"
	cases := map[string]struct {
		job  *trainer.TrainJob
		want string
	}{
		"of the cluster":       {builders.TrainJob("a"), `ClusterTrainingRuntime "torch"`},
		"of the namespace":     {builders.TrainJob("a", builders.Runtime(trainer.TrainingRuntimeKind, "mine")), `TrainingRuntime "mine" in namespace "default"`},
		"of an unknown kind":   {builders.TrainJob("a", builders.Runtime("Foo", "bar")), `Foo "bar"`},
		"of another API group": {builders.TrainJob("a", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.APIGroup = &group }), `ClusterTrainingRuntime.example.com "torch"`},
		"without defaults": {builders.TrainJob("a", func(job *trainer.TrainJob) {
			job.Spec.RuntimeRef = trainer.RuntimeRef{Name: "torch"}
		}), `ClusterTrainingRuntime "torch"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := describe(tc.job); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestIndexFindsTheUnfinishedJobsOfARuntime(t *testing.T) {
	group := "example.com"
	cases := map[string]struct {
		object any
		want   []string
	}{
		"of a cluster runtime":      {builders.TrainJob("a"), []string{"ClusterTrainingRuntime//torch"}},
		"of a namespaced runtime":   {builders.TrainJob("a", builders.Runtime(trainer.TrainingRuntimeKind, "mine")), []string{"TrainingRuntime/default/mine"}},
		"of an unknown kind":        {builders.TrainJob("a", builders.Runtime("Foo", "bar")), nil},
		"of another API group":      {builders.TrainJob("a", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.APIGroup = &group }), nil},
		"a job that has finished":   {builders.TrainJob("a", builders.State("Complete", "Done", builders.At(1))), nil},
		"a job of another manager":  {builders.TrainJob("a", builders.ManagedBy(trainer.ManagedByMultiKueue)), nil},
		"something that is no job":  {&corev1.ConfigMap{}, nil},
		"a job without any default": {builders.TrainJob("a", func(job *trainer.TrainJob) { job.Spec.RuntimeRef = trainer.RuntimeRef{Name: "x"} }), []string{"ClusterTrainingRuntime//x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := indexByRuntime(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("index values (-want +got):\n%s", diff)
			}
		})
	}
}
