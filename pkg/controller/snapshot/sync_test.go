package snapshot

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	jobsetlisters "sigs.k8s.io/jobset/client-go/listers/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// fixture is a controller between caches that hold what a test puts in, and an API
// server that may know more.
type fixture struct {
	t                                  *testing.T
	controller                         *Controller
	clock                              *clocktesting.FakeClock
	trainer                            *trainerfake.Clientset
	core                               *corefake.Clientset
	events                             *record.FakeRecorder
	jobs, runtimes, snapshots, jobSets cache.Indexer
}

var theJob = cache.ObjectName{Namespace: builders.Namespace, Name: "a"}

// newFixture has the job both in its cache and on the API server, and its runtime in
// the cache.
func newFixture(t *testing.T, job *trainer.TrainJob) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: clocktesting.NewFakeClock(builders.At(10)),
		trainer: fakes.Trainer(job.DeepCopy()), core: corefake.NewClientset(),
		events:  record.NewFakeRecorder(20),
		jobSets: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	informers := trainerinformers.NewSharedInformerFactory(f.trainer, 0).Trainer().V1alpha1()
	snapshots := coreinformers.NewConfigMapInformer(f.core, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var err error
	f.controller, err = New(Config{
		TrainJobs: f.trainer.TrainerV1alpha1(), ConfigMaps: f.core.CoreV1(), Informers: informers, Snapshots: snapshots,
		JobSets: jobsetlisters.NewJobSetLister(f.jobSets), Recorder: f.events, Clock: f.clock, Metrics: metrics.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.jobs, f.snapshots = informers.TrainJobs().Informer().GetIndexer(), snapshots.GetIndexer()
	f.runtimes = informers.ClusterTrainingRuntimes().Informer().GetIndexer()
	f.add(f.jobs, job)
	f.add(f.runtimes, builders.ClusterTrainingRuntime("torch", builders.TorchSpec()))
	return f
}

func (f *fixture) add(to cache.Indexer, object any) {
	f.t.Helper()
	if err := to.Add(object); err != nil {
		f.t.Fatal(err)
	}
}

// live puts a ConfigMap on the API server alone.
func (f *fixture) live(cm *corev1.ConfigMap) {
	f.t.Helper()
	if err := f.core.Tracker().Add(cm); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) sync() (queue.Result, error) {
	return f.controller.sync(f.t.Context(), theJob)
}

func (f *fixture) wantWrites(want ...string) {
	f.t.Helper()
	var got []string
	for _, actions := range [][]clienttesting.Action{f.core.Actions(), f.trainer.Actions()} {
		for _, a := range actions {
			if a.GetVerb() != "get" {
				got = append(got, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// wantEvents checks the beginning of each event that was sent.
func (f *fixture) wantEvents(want ...string) {
	f.t.Helper()
	close(f.events.Events)
	var got []string
	for event := range f.events.Events {
		got = append(got, event)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			f.t.Fatalf("events %q, want %q", got, want)
		}
	}
}

// pending is the reason for which the job is Pending on the API server.
func (f *fixture) pending() string {
	f.t.Helper()
	job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(f.t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if job.Status.State == trainer.TrainJobPending {
		return job.Status.Reason
	}
	return ""
}

func beingDeleted(job *trainer.TrainJob) { job.DeletionTimestamp = &metav1.Time{Time: builders.At(9)} }

func hadSnapshot(job *trainer.TrainJob) {
	job.Status.RuntimeSnapshot = &trainer.RuntimeSnapshotReference{Name: "a-runtime-snapshot", UID: "before", Digest: "sha256:other"}
}

func TestSyncTakesNoSnapshotOfJobsThatNeedNone(t *testing.T) {
	for name, opt := range map[string]builders.JobOption{
		"a job of another controller":   builders.ManagedBy(trainer.ManagedByMultiKueue),
		"a finished job":                builders.State("Failed", "Some", builders.At(1)),
		"a job that is deleted":         beingDeleted,
		"a job beyond its deadline":     builders.Deadline(5),
		"a job exactly at its deadline": builders.Deadline(10),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, builders.TrainJob("a", opt))
			if result, err := f.sync(); err != nil || result.After != 0 {
				t.Errorf("got %v, %v, want nothing", result, err)
			}
			f.wantWrites()
		})
	}
}

func TestSyncTakesTheSnapshotOnceThoughTheCacheIsBehind(t *testing.T) {
	f := newFixture(t, builders.TrainJob("a"))
	f.core.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		cm := action.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap).DeepCopy()
		cm.UID = "snapshot-uid"
		return true, cm, nil
	})
	look := func() {
		t.Helper()
		result, err := f.sync()
		if err != nil || result.After != informer.NoteLifetime {
			t.Errorf("got %v, %v, want to look again after %v: should the ConfigMap be gone already, no event says so", result, err, informer.NoteLifetime)
		}
	}
	look()
	look()
	f.wantWrites("create configmaps")
	f.clock.Step(informer.NoteLifetime)
	look() // the cache still has none: it was deleted while there was no watch
	f.wantWrites("create configmaps", "create configmaps")
	f.wantEvents("Normal SnapshotCreated ", "Normal SnapshotCreated ")
}

func TestSyncAsksBeforeItWritesWhereAConfigMapWasInTheWay(t *testing.T) {
	waits := builders.State("Pending", trainer.ReasonSnapshotConflict, builders.At(1))
	strangers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: theJob.Namespace, Name: runtimesnapshot.Name(theJob.Name)}}
	for name, tc := range map[string]struct {
		there  []runtime.Object
		writes []string
	}{
		"it is still there": {[]runtime.Object{strangers}, []string{"patch trainjobs/status"}}, // with the words of today
		"it is gone":        {nil, []string{"create configmaps"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, builders.TrainJob("a", waits))
			for _, object := range tc.there {
				if err := f.core.Tracker().Add(object); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.writes...)
		})
	}
}

func TestSyncFindsASnapshotWithoutItsLabelThoughTheRuntimeIsGone(t *testing.T) {
	gone := builders.Runtime(trainer.ClusterTrainingRuntimeKind, "gone")
	older := inherited
	seenBefore := func(job *trainer.TrainJob) { job.Status.Lifecycle = &trainer.LifecycleLimits{} }
	unlabelled := func(job *trainer.TrainJob) *corev1.ConfigMap {
		cm := snapshotOf(t, job)
		cm.Labels = nil
		return cm
	}
	cases := map[string]struct {
		job    *trainer.TrainJob
		there  bool
		writes []string
	}{
		"one that is recorded":              {builders.TrainJob("a", gone, hadSnapshot), true, []string{"patch configmaps"}},
		"one of a job from before our time": {builders.TrainJob("a", gone, older), true, []string{"patch configmaps"}},
		"none, though one is recorded":      {builders.TrainJob("a", gone, hadSnapshot), false, []string{"patch trainjobs/status"}},
		// Trainer writes no status before its JobSet exists.
		"one of a job without any status":        {builders.TrainJob("a", gone), true, []string{"patch configmaps"}},
		"a new job's, which was looked for once": {builders.TrainJob("a", gone, seenBefore), true, []string{"patch trainjobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.job)
			if tc.there {
				f.live(unlabelled(tc.job))
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.writes...)
		})
	}
}

// inherited is a job that another controller has suspended.
func inherited(job *trainer.TrainJob) {
	builders.State("Suspended", "Suspended", builders.At(1))(job)
	job.Status.State = ""
}

func TestSyncLooksForTheSnapshotOfAnotherControllerBeforeItWrites(t *testing.T) {
	seenRunning := func(job *trainer.TrainJob) { job.Status.JobsStatus = []trainer.JobStatus{{Name: "node", Ready: 1}} }
	unlabelled := func(job *trainer.TrainJob) *corev1.ConfigMap {
		cm := snapshotOf(t, job)
		cm.Labels, cm.Immutable = nil, nil
		return cm
	}
	strangers := func(job *trainer.TrainJob) *corev1.ConfigMap {
		cm := unlabelled(job)
		cm.OwnerReferences = nil
		return cm
	}
	cases := map[string]struct {
		job    *trainer.TrainJob
		live   func(*trainer.TrainJob) *corev1.ConfigMap
		spec   trainer.TrainingRuntimeSpec
		writes []string
	}{
		"a suspended job's is adopted":               {builders.TrainJob("a", inherited), unlabelled, builders.TorchSpec(), []string{"patch configmaps"}},
		"a running job's is adopted":                 {builders.TrainJob("a", seenRunning), unlabelled, builders.TorchSpec(), []string{"patch configmaps"}},
		"though the runtime cannot be used any more": {builders.TrainJob("a", inherited), unlabelled, unusable(), []string{"patch configmaps"}},
		"one that has none is given one":             {builders.TrainJob("a", inherited), nil, builders.TorchSpec(), []string{"create configmaps"}},
		"a stranger's is in the way":                 {builders.TrainJob("a", inherited), strangers, builders.TorchSpec(), []string{"patch trainjobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.job)
			f.add(f.runtimes, builders.ClusterTrainingRuntime("torch", tc.spec))
			if tc.live != nil {
				f.live(tc.live(tc.job))
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.writes...)
		})
	}
}

func TestSyncLooksForTheSnapshotThatAJobSetWasBuiltFrom(t *testing.T) {
	job := builders.TrainJob("a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "gone"), func(job *trainer.TrainJob) {
		job.Status.Lifecycle = &trainer.LifecycleLimits{} // the jobset controller was quicker
	})
	f := newFixture(t, job)
	cm := snapshotOf(t, job)
	cm.Labels = nil
	f.live(cm)
	f.add(f.jobSets, builders.JobSetOf(job))
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	f.wantWrites("patch configmaps")
}

func TestSyncTakesALostSnapshotAgainIfTheJobIsStillThere(t *testing.T) {
	cases := map[string]struct {
		now    *trainer.TrainJob // on the API server; nil if it is gone
		writes []string
		events []string
	}{
		"it is": {
			builders.TrainJob("a", hadSnapshot), []string{"create configmaps"},
			[]string{"Normal SnapshotCreated "},
		},
		"it is gone":          {nil, nil, nil},
		"it is another":       {builders.TrainJob("a", builders.UID("newer")), nil, nil},
		"it is being deleted": {builders.TrainJob("a", hadSnapshot, beingDeleted), nil, nil},
		"it has finished":     {builders.TrainJob("a", hadSnapshot, builders.State("Complete", "Done", builders.At(9))), nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, builders.TrainJob("a", hadSnapshot))
			jobs := trainer.SchemeGroupVersion.WithResource("trainjobs")
			if err := f.trainer.Tracker().Delete(jobs, theJob.Namespace, theJob.Name); err != nil {
				t.Fatal(err)
			}
			if tc.now != nil {
				if err := f.trainer.Tracker().Add(tc.now); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.writes...)
			f.wantEvents(tc.events...)
		})
	}
}

func TestSyncExaminesAConfigMapThatTheCacheDoesNotShow(t *testing.T) {
	job := builders.TrainJob("a")
	own, unlabelled := snapshotOf(t, job), snapshotOf(t, job)
	unlabelled.Labels = nil
	older := snapshotOf(t, builders.TrainJob("a", builders.UID("older")))
	cases := map[string]struct {
		live   *corev1.ConfigMap
		reason string
		again  time.Duration
		writes []string
	}{
		"its own is used":                         {own, "", informer.NoteLifetime, []string{"create configmaps"}},
		"its own without our label gets it":       {unlabelled, "", informer.NoteLifetime, []string{"create configmaps", "patch configmaps"}},
		"an earlier job's is waited for":          {older, trainer.ReasonSnapshotConflict, 10 * time.Second, []string{"create configmaps", "patch trainjobs/status"}},
		"a stranger's is looked at again by time": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: own.Name, Namespace: own.Namespace}}, trainer.ReasonSnapshotConflict, 10 * time.Second, []string{"create configmaps", "patch trainjobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.live(tc.live)
			result, err := f.sync()
			if err != nil || result.After != tc.again {
				t.Errorf("got %v, %v, want to look again after %v", result, err, tc.again)
			}
			if got := f.pending(); got != tc.reason {
				t.Errorf("pending for %q, want %q", got, tc.reason)
			}
			f.wantWrites(tc.writes...)
		})
	}
}

func TestSyncTellsThatASnapshotWasRefusedAndTriesAgain(t *testing.T) {
	f := newFixture(t, builders.TrainJob("a"))
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("exceeded quota"))
	f.core.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
	if _, err := f.sync(); !errors.Is(err, refusal) {
		t.Errorf("error %v does not bring it back for another try", err)
	}
	if got := f.pending(); got != trainer.ReasonCreationFailed {
		t.Errorf("pending for %q, want %s", got, trainer.ReasonCreationFailed)
	}
}

func TestSyncLeavesTheStatusOfAJobWithAJobSetToOthers(t *testing.T) {
	job := builders.TrainJob("a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "missing"))
	f := newFixture(t, job)
	f.add(f.jobSets, builders.JobSetOf(job))
	if _, err := f.sync(); err != nil {
		t.Fatal(err)
	}
	f.wantWrites()
}

func TestSyncComesBackForAStatusThatHadToWait(t *testing.T) {
	job := builders.TrainJob("a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "mine"))
	f := newFixture(t, job)
	f.add(f.runtimes, builders.ClusterTrainingRuntime("mine", unusable()))
	if result, err := f.sync(); err != nil || result.After != 0 {
		t.Fatalf("got %v, %v, want the status to be written", result, err)
	}
	written, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	written = written.DeepCopy()
	written.ResourceVersion = "newer"
	f.add(f.jobs, written)
	spec := builders.TorchSpec()
	spec.Template.Spec.ReplicatedJobs = nil
	f.add(f.runtimes, builders.ClusterTrainingRuntime("mine", spec))
	f.clock.Step(400 * time.Millisecond)
	result, err := f.sync()
	if err != nil || result.After != 600*time.Millisecond {
		t.Errorf("got %v, %v, want to come back after the rest of a second", result, err)
	}
}

func TestEditOfARuntimeWakesOnlyJobsThatNeedIt(t *testing.T) {
	f := newFixture(t, builders.TrainJob("a"))
	frozen := builders.TrainJob("frozen")
	f.add(f.jobs, frozen)
	f.add(f.snapshots, snapshotOf(t, frozen))
	f.add(f.jobs, builders.TrainJob("b", builders.Runtime(trainer.ClusterTrainingRuntimeKind, "other")))
	before := f.controller.queue.Len()
	f.controller.enqueueUsersOf(trainer.ClusterTrainingRuntimeKind)(builders.ClusterTrainingRuntime("torch", builders.TorchSpec()))
	if woken := f.controller.queue.Len() - before; woken != 1 {
		t.Errorf("%d jobs were woken, want the one without a snapshot", woken)
	}
}
