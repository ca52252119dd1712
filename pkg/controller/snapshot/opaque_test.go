package snapshot

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
)

var slurmResource = schema.GroupVersionResource{Group: slurmKind.Group, Version: "v1", Resource: "slurmruntimes"}

func slurmRuntime(partition string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "slurm.example.com/v1", "kind": "SlurmRuntime",
		"metadata": map[string]any{"name": "big", "namespace": builders.Namespace, "uid": "runtime-uid"},
		"spec":     map[string]any{"partition": partition},
	}}
}

// opaqueFixture is a fixture whose controller lists SlurmRuntime as opaque; the API server
// serves it, and has no such runtime.
type opaqueFixture struct {
	*fixture
	discovery *fakediscovery.FakeDiscovery
	runtimes  *dynamicfake.FakeDynamicClient
}

func slurmJob(opts ...builders.JobOption) *trainer.TrainJob {
	return builders.TrainJob("a", append([]builders.JobOption{builders.OpaqueRuntime(slurmKind.Group, slurmKind.Kind, "big")}, opts...)...)
}

func newOpaqueFixture(t *testing.T, job *trainer.TrainJob) *opaqueFixture {
	t.Helper()
	f := &opaqueFixture{fixture: newFixture(t, job), discovery: serving(true, "v1")}
	f.runtimes = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{slurmResource: "SlurmRuntimeList"})
	kinds := sets.New(slurmKind)
	f.controller.opaque = &opaqueReader{kinds: kinds, finder: newKindFinder(f.discovery, kinds), client: f.runtimes}
	return f
}

func (f *opaqueFixture) publish(runtime *unstructured.Unstructured) {
	f.t.Helper()
	if err := f.runtimes.Tracker().Create(slurmResource, runtime, runtime.GetNamespace()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *opaqueFixture) answer(err error) {
	f.runtimes.PrependReactor("get", "slurmruntimes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// wantSync syncs at a second, as if an event had come, and checks when it wants to again.
func (f *opaqueFixture) wantSync(second int, again time.Duration) {
	f.t.Helper()
	f.clock.SetTime(builders.At(second))
	result, err := f.sync()
	if err != nil || result.After != again {
		f.t.Errorf("at second %d got %v, %v, want to look again after %v", second, result, err, again)
	}
	f.refresh()
}

// refresh lets the cache catch up with the API server.
func (f *opaqueFixture) refresh() {
	f.t.Helper()
	f.add(f.jobs, f.job())
}

func (f *opaqueFixture) job() *trainer.TrainJob {
	f.t.Helper()
	job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(f.t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return job
}

func (f *opaqueFixture) wantState(state trainer.TrainJobState, reason, message string) {
	f.t.Helper()
	job := f.job()
	if job.Status.State != state || job.Status.Reason != reason || !strings.Contains(job.Status.Message, message) {
		f.t.Errorf("state %s with %+v, want %s for %s with %q in its message", job.Status.State, job.Status, state, reason, message)
	}
}

func (f *opaqueFixture) wantReads(want int) {
	f.t.Helper()
	if got := len(f.runtimes.Actions()); got != want {
		f.t.Errorf("runtimes were read %d times, want %d", got, want)
	}
}

func TestAnOpaqueRuntimeIsFrozenAndTheJobLeftToItsBuilder(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	f.publish(slurmRuntime("gpu"))
	f.core.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		cm := action.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap).DeepCopy()
		cm.UID = "snapshot-uid"
		f.add(f.snapshots, cm)
		return true, cm, nil
	})
	f.wantSync(10, 30*time.Second)
	f.wantSync(11, 30*time.Second) // it goes by its note of the ConfigMap, whose event has not come
	f.wantState(trainer.TrainJobPending, trainer.ReasonExternalRuntime, "SlurmRuntime.slurm.example.com")
	if ref := f.job().Status.RuntimeSnapshot; ref == nil || ref.UID != "snapshot-uid" || !strings.HasPrefix(ref.Digest, "sha256:") {
		t.Errorf("status.runtimeSnapshot is %+v", ref)
	}
	f.controller.enqueueOwnerOf(f.snapshots.List()[0])
	f.wantSync(12, 0)
	f.wantSync(5000, 0)
	f.wantWrites("create configmaps", "patch trainjobs/status")
	f.wantReads(1)
	f.wantEvents("Normal SnapshotCreated Took the snapshot of SlurmRuntime.slurm.example.com \"big\"")
}

func TestWhatKeepsAnOpaqueRuntimeAwayIsToldAndPolled(t *testing.T) {
	resource := slurmResource.GroupResource()
	cases := map[string]struct {
		spoil   func(*opaqueFixture)
		message string
	}{
		"no such runtime": {func(*opaqueFixture) {}, `SlurmRuntime.slurm.example.com "big" in namespace "default", which does not exist`},
		"no such kind":    {func(f *opaqueFixture) { f.discovery.Resources = served(true) }, "does not serve that kind"},
		"a kind that went after it was discovered": {
			func(f *opaqueFixture) {
				f.answer(apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "big", "404 page not found", 0, true))
			}, "no longer serves that kind",
		},
		"no right": {
			func(f *opaqueFixture) { f.answer(apierrors.NewForbidden(resource, "big", errors.New("RBAC"))) },
			`lacks the right to get slurmruntimes.slurm.example.com; label a ClusterRole that grants it with trainer.kubeflow.org/aggregate-to-trainjob-controller: "true"`,
		},
		"a conversion that fails": {
			func(f *opaqueFixture) {
				f.answer(apierrors.NewInternalError(errors.New("conversion webhook for SlurmRuntime failed")))
			},
			"cannot be read: Internal error occurred: conversion webhook",
		},
		"no right to discover": {
			func(f *opaqueFixture) {
				f.discovery.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no discovery"))
				})
			}, "cannot be looked for",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newOpaqueFixture(t, slurmJob())
			tc.spoil(f)
			f.wantSync(10, 5*time.Second)
			f.wantState(trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, tc.message)
			f.wantWrites("patch trainjobs/status")
			f.wantEvents("Warning WaitingForRuntime ")
		})
	}
}

func TestAMissingOpaqueRuntimeIsReadLessAndLessWhateverWakesTheJob(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	var read []int
	for second := 10; second < 300; second++ {
		before := len(f.runtimes.Actions())
		f.clock.SetTime(builders.At(second))
		if _, err := f.sync(); err != nil {
			t.Fatal(err)
		}
		f.refresh()
		if len(f.runtimes.Actions()) > before {
			read = append(read, second)
		}
	}
	for i, want := range []int{10, 15, 25, 45, 85, 145, 205, 265} {
		if i >= len(read) || read[i] != want {
			t.Fatalf("read at seconds %v, want after 5, 10, 20, 40, and then every 60 seconds", read)
		}
	}
	f.wantWrites("patch trainjobs/status") // the first and only one
	expectAsks(t, f.discovery, 1)
	f.publish(slurmRuntime("gpu"))
	f.wantSync(325, 0)
	f.wantWrites("create configmaps", "patch trainjobs/status")
}

func TestAJobMadeAgainDoesNotWaitForItsNamesake(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	f.wantSync(10, 5*time.Second)
	f.wantSync(12, 3*time.Second)
	again := slurmJob(builders.UID("newer"), func(job *trainer.TrainJob) { job.ResourceVersion = "newer" })
	if err := f.trainer.Tracker().Update(trainer.SchemeGroupVersion.WithResource("trainjobs"), again, again.Namespace); err != nil {
		t.Fatal(err)
	}
	f.refresh()
	f.wantSync(13, 5*time.Second)
	f.wantReads(2)
}

func TestAnOpaqueRuntimeOfTheClusterIsReadWithoutANamespace(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	f.discovery.Resources = served(false, "v1")
	f.wantSync(10, 5*time.Second)
	f.wantState(trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, `SlurmRuntime.slurm.example.com "big", which does not exist`)
	everywhere := slurmRuntime("gpu")
	everywhere.SetNamespace("")
	f.publish(everywhere)
	f.wantSync(15, 0)
	f.wantWrites("create configmaps", "patch trainjobs/status")
}

func TestAnOpaqueRuntimeThatIsTooLargeIsReadOnceAMinute(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	f.publish(slurmRuntime(strings.Repeat("x", runtimesnapshot.MaxBytes)))
	f.wantSync(10, time.Minute)
	f.wantState(trainer.TrainJobPending, trainer.ReasonSnapshotTooLarge, `SlurmRuntime "big" takes`)
	f.wantSync(11, 59*time.Second)
	f.wantReads(1)
	if err := f.runtimes.Tracker().Update(slurmResource, slurmRuntime("gpu"), builders.Namespace); err != nil {
		t.Fatal(err)
	}
	f.wantSync(70, 0)
	f.wantWrites("create configmaps", "patch trainjobs/status")
}

func TestAConfigMapInTheWayOfAnOpaqueJobIsLookedAtMoreOftenThanOnceAMinute(t *testing.T) {
	f := newOpaqueFixture(t, slurmJob())
	f.publish(slurmRuntime("gpu"))
	f.live(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: theJob.Namespace, Name: runtimesnapshot.Name(theJob.Name)}})
	f.wantSync(10, 10*time.Second) // the age of the job
	f.wantState(trainer.TrainJobPending, trainer.ReasonSnapshotConflict, "does not belong to this TrainJob")
	f.wantSync(15, 5*time.Second) // the age of the state
	if err := f.core.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), theJob.Namespace, runtimesnapshot.Name(theJob.Name)); err != nil {
		t.Fatal(err)
	}
	f.wantSync(20, 0)
	f.wantWrites("create configmaps", "create configmaps", "patch trainjobs/status") // the first was refused
}

func TestNoAnswerIsTriedAgainAndNoStateOfTheJob(t *testing.T) {
	lost := errors.New("connection refused")
	for name, spoil := range map[string]func(*opaqueFixture){
		"about the runtime": func(f *opaqueFixture) { f.answer(lost) },
		"about the kind": func(f *opaqueFixture) {
			f.discovery.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, lost })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOpaqueFixture(t, slurmJob())
			spoil(f)
			if _, err := f.sync(); !errors.Is(err, lost) {
				t.Errorf("error %v, want the lost connection", err)
			}
			f.wantWrites()
		})
	}
}

func TestAKindThatIsNotListedFailsTheJobWithoutALook(t *testing.T) {
	f := newOpaqueFixture(t, builders.TrainJob("a", builders.OpaqueRuntime("ray.io", "RayCluster", "x")))
	f.wantSync(10, 0)
	f.wantState(trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported,
		`RayCluster.ray.io "x": this controller understands the kinds ClusterTrainingRuntime and TrainingRuntime of trainer.kubeflow.org, and for builders of their own `)
	f.wantReads(0)
	expectAsks(t, f.discovery, 0)
}

// opaqueSnapshot is the snapshot that a job has.
func opaqueSnapshot(t *testing.T, job *trainer.TrainJob) *corev1.ConfigMap {
	t.Helper()
	cm, err := runtimesnapshot.EncodeOpaque(job, slurmRuntime("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	cm.UID = "snapshot-uid"
	return cm
}

func TestAJobWithItsSnapshotNeedsNeitherTheFlagNorTheRuntime(t *testing.T) {
	suspended := builders.Suspended(true)
	heldBack := builders.State("Suspended", "Suspended", builders.At(1))
	recorded := func(job *trainer.TrainJob) {
		job.Status.RuntimeSnapshot = runtimesnapshot.Reference(opaqueSnapshot(t, job))
		job.Status.Lifecycle = &trainer.LifecycleLimits{}
	}
	begun := func(job *trainer.TrainJob) { job.Status.StartTime = &metav1.Time{Time: builders.At(2)} }
	cases := map[string]struct {
		job    *trainer.TrainJob
		state  trainer.TrainJobState
		reason string
		writes []string
	}{
		"new":               {slurmJob(), trainer.TrainJobPending, trainer.ReasonExternalRuntime, []string{"patch trainjobs/status"}},
		"suspended":         {slurmJob(suspended), trainer.TrainJobSuspended, trainer.ReasonSuspended, []string{"patch trainjobs/status"}},
		"resumed":           {slurmJob(recorded, heldBack), trainer.TrainJobPending, trainer.ReasonExternalRuntime, []string{"patch trainjobs/status"}},
		"running":           {slurmJob(recorded, begun, builders.State("Running", "Started", builders.At(3))), trainer.TrainJobRunning, "Started", nil},
		"suspended by hand": {slurmJob(recorded, begun, suspended, builders.State("Running", "Started", builders.At(3))), trainer.TrainJobRunning, "Started", nil},
		"finished":          {slurmJob(recorded, begun, builders.State("Complete", "Done", builders.At(3))), trainer.TrainJobComplete, "Done", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newOpaqueFixture(t, tc.job)
			f.controller.opaque.kinds = nil
			f.add(f.snapshots, opaqueSnapshot(t, tc.job))
			// A JobSet of the job's name is its builder's, and says nothing to us.
			f.add(f.jobSets, builders.JobSetOf(tc.job))
			f.wantSync(10, 0)
			f.wantState(tc.state, tc.reason, "")
			f.wantWrites(tc.writes...)
			f.wantSync(20, 0)
			f.wantWrites(tc.writes...)
			f.wantReads(0)
		})
	}
}

func TestALostSnapshotOfAJobThatItsBuilderHasIsTakenAgainOrWarnedOf(t *testing.T) {
	running := []builders.JobOption{hadSnapshot, builders.State("Running", "Started", builders.At(3))}
	t.Run("from the runtime as it is now", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.publish(slurmRuntime("gpu"))
		f.wantSync(10, 0)
		f.add(f.snapshots, opaqueSnapshot(t, slurmJob(running...)))
		f.wantSync(11, 0)
		f.wantWrites("create configmaps", "patch trainjobs/status")
		f.wantEvents("Normal SnapshotCreated ", "Warning RuntimeSnapshotReplaced ")
	})
	t.Run("while there is no runtime", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.wantSync(10, 5*time.Second)
		f.wantSync(15, 10*time.Second)
		f.wantState(trainer.TrainJobRunning, "Started", "")
		f.wantEvents("Warning WaitingForRuntime The snapshot is gone. ") // once
	})
	t.Run("while the runtime is too large", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.publish(slurmRuntime(strings.Repeat("x", runtimesnapshot.MaxBytes)))
		for second := 10; second < 400; second += 60 {
			f.wantSync(second, time.Minute)
		}
		f.wantReads(7)
		f.wantEvents("Warning SnapshotTooLarge The snapshot is gone. ") // once
	})
	t.Run("while there is no runtime, and then one that is too large", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.wantSync(10, 5*time.Second)
		f.publish(slurmRuntime(strings.Repeat("x", runtimesnapshot.MaxBytes)))
		f.wantSync(15, time.Minute)
		f.wantSync(75, time.Minute)
		f.wantEvents("Warning WaitingForRuntime ", "Warning SnapshotTooLarge ") // each once
	})
	t.Run("while a ConfigMap is in the way", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.publish(slurmRuntime("gpu"))
		f.live(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: theJob.Namespace, Name: runtimesnapshot.Name(theJob.Name)}})
		f.wantSync(10, 7*time.Second)
		f.wantSync(17, 14*time.Second)
		f.wantEvents("Warning SnapshotConflict The snapshot is gone. ") // once
	})
	t.Run("while it is refused", func(t *testing.T) {
		f := newOpaqueFixture(t, slurmJob(running...))
		f.publish(slurmRuntime("gpu"))
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("exceeded quota"))
		f.core.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
		for second := 10; second < 14; second++ {
			f.clock.SetTime(builders.At(second))
			if _, err := f.sync(); !errors.Is(err, refusal) {
				t.Errorf("error %v does not bring it back for another try", err)
			}
		}
		f.wantReads(4)
		f.wantState(trainer.TrainJobRunning, "Started", "")
		f.wantEvents("Warning CreationFailed The snapshot is gone. ") // once
	})
}
