package jobset

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
	dynamicfake "k8s.io/client-go/dynamic/fake"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetfake "sigs.k8s.io/jobset/client-go/clientset/versioned/fake"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

// fixture is a controller between caches that hold what a test puts in, and an API
// server that may know more.
type fixture struct {
	t          *testing.T
	controller *Controller
	clock      *clocktesting.FakeClock
	trainer    *trainerfake.Clientset
	jobSet     *jobsetfake.Clientset
	core       *corefake.Clientset
	podGroups  *dynamicfake.FakeDynamicClient
	events     *record.FakeRecorder
	caches     map[string]cache.Indexer
}

var theJob = cache.ObjectName{Namespace: builders.Namespace, Name: "a"}

// newFixture has the job both in its cache and on the API server.
func newFixture(t *testing.T, job *trainer.TrainJob) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: clocktesting.NewFakeClock(builders.At(10)),
		trainer: fakes.Trainer(job.DeepCopy()), jobSet: jobsetfake.NewSimpleClientset(),
		core: corefake.NewClientset(), podGroups: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()),
		events: record.NewFakeRecorder(20),
	}
	jobs := trainerinformers.NewSharedInformerFactory(f.trainer, 0).Trainer().V1alpha1().TrainJobs()
	jobSets := jobsetinformers.NewSharedInformerFactory(f.jobSet, 0).Jobset().V1alpha2().JobSets()
	snapshots := coreinformers.NewConfigMapInformer(f.core, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var err error
	f.controller, err = New(Config{
		TrainJobs: f.trainer.TrainerV1alpha1(), JobSets: f.jobSet.JobsetV1alpha2(), Jobs: f.core.BatchV1(),
		ConfigMaps: f.core.CoreV1(), Secrets: f.core.CoreV1(), PodGroups: f.podGroups,
		TrainJobInformer: jobs, JobSetInformer: jobSets, Snapshots: snapshots,
		Recorder: f.events, Clock: f.clock, Metrics: metrics.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.caches = map[string]cache.Indexer{
		"trainjobs": jobs.Informer().GetIndexer(), "jobsets": jobSets.Informer().GetIndexer(), "configmaps": snapshots.GetIndexer(),
	}
	f.cached("trainjobs", job)
	return f
}

func (f *fixture) cached(resource string, objects ...any) {
	f.t.Helper()
	for _, object := range objects {
		if err := f.caches[resource].Add(object); err != nil {
			f.t.Fatal(err)
		}
	}
}

// live puts a JobSet on the API server alone.
func (f *fixture) live(js *jobset.JobSet) {
	f.t.Helper()
	if err := f.jobSet.Tracker().Add(js); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) sync() (queue.Result, error) {
	return f.controller.sync(f.t.Context(), theJob)
}

// writes are the verbs and resources of everything that was written.
func (f *fixture) writes() []string {
	var all []string
	for _, actions := range [][]clienttesting.Action{f.podGroups.Actions(), f.core.Actions(), f.jobSet.Actions(), f.trainer.Actions()} {
		for _, a := range actions {
			if a.GetVerb() != "get" && a.GetVerb() != "list" && a.GetVerb() != "watch" {
				all = append(all, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
			}
		}
	}
	return all
}

func (f *fixture) wantWrites(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.writes()); diff != "" {
		f.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// seesItsWrites has the cache show the job as it is on the API server.
func (f *fixture) seesItsWrites() {
	f.t.Helper()
	job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(f.t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.cached("trainjobs", job)
}

// pending is the reason and message of the job's Pending condition on the API server.
func (f *fixture) pending() (reason, message string) {
	f.t.Helper()
	job, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(f.t.Context(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if job.Status.State == trainer.TrainJobPending {
		return job.Status.Reason, job.Status.Message
	}
	f.t.Fatalf("the job is not Pending: %v", job.Status)
	return "", ""
}

// refuse makes the API server answer writes of JobSets with an error.
func (f *fixture) refuse(verb string, err error) {
	f.jobSet.PrependReactor(verb, "jobsets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func started(job *trainer.TrainJob) { job.Status.StartTime = &metav1.Time{Time: builders.At(5)} }

func TestSyncLeavesAloneWhatIsNotItsBusiness(t *testing.T) {
	cases := map[string][]builders.JobOption{
		"a job of another controller":       {builders.ManagedBy(trainer.ManagedByMultiKueue)},
		"a job whose deadline has passed":   {builders.Deadline(5)},
		"a finished job without a JobSet":   {builders.State("Complete", "Done", builders.At(1))},
		"a job without snapshot and JobSet": nil,
		"a job with a builder of its own":   {builders.OpaqueRuntime("slurm.example.com", "SlurmRuntime", "big")},
		"an overdue one that has ended": {
			builders.OpaqueRuntime("slurm.example.com", "SlurmRuntime", "big"),
			builders.State("Failed", trainer.ReasonDeadlineExceeded, builders.At(1)),
		},
	}
	for name, opts := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", opts...)
			f := newFixture(t, job)
			if name != "a job without snapshot and JobSet" {
				f.cached("configmaps", snapshotOf(t, job))
			}
			if trainjob.External(job) { // a JobSet that its builder has made
				f.cached("jobsets", builders.JobSetOf(job, builders.ToldToHoldBack()))
			}
			if result, err := f.sync(); err != nil || result.After != 0 {
				t.Errorf("got %v, %v, want nothing", result, err)
			}
			f.wantWrites()
		})
	}
}

func TestSyncCreatesTheJobSetOnceThoughTheCacheIsBehind(t *testing.T) {
	job := builders.TrainJob("a")
	f := newFixture(t, job)
	f.cached("configmaps", snapshotOf(t, job))
	look := func() {
		t.Helper()
		result, err := f.sync()
		if err != nil || result.After != informer.NoteLifetime {
			t.Errorf("got %v, %v, want to look again after %v: should the JobSet be gone already, no event says so", result, err, informer.NoteLifetime)
		}
	}
	look()
	f.wantWrites("create jobsets", "patch trainjobs/status")
	if event := <-f.events.Events; event != `Normal JobSetCreated Created JobSet "a"` {
		t.Errorf("event %q", event)
	}
	f.seesItsWrites()
	look()
	f.wantWrites("create jobsets", "patch trainjobs/status")
	if err := f.jobSet.Tracker().Delete(jobset.SchemeGroupVersion.WithResource("jobsets"), theJob.Namespace, theJob.Name); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(informer.NoteLifetime)
	look() // the cache still has none: it was deleted while there was no watch
	f.wantWrites("create jobsets", "create jobsets", "patch trainjobs/status")
}

func TestSyncAsksBeforeItCreatesAgain(t *testing.T) {
	cases := map[string]struct {
		now  *trainer.TrainJob // on the API server; nil if it is gone
		want []string
	}{
		"the job is as the cache says": {builders.TrainJob("a", started), []string{"create jobsets", "patch trainjobs/status"}},
		"the job is gone":              {nil, []string{"patch trainjobs/status"}},
		"the job is another one now":   {builders.TrainJob("a", builders.UID("newer")), []string{"patch trainjobs/status"}},
		"the job is being deleted":     {builders.TrainJob("a", started, beingDeleted), []string{"patch trainjobs/status"}},
		"the job has been suspended":   {builders.TrainJob("a", started, builders.Suspended(true)), []string{"patch trainjobs/status"}},
		"the job has finished":         {builders.TrainJob("a", started, builders.State("Failed", "DeadlineExceeded", builders.At(9))), []string{"patch trainjobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", started)
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			jobs := trainer.SchemeGroupVersion.WithResource("trainjobs")
			if err := f.trainer.Tracker().Delete(jobs, theJob.Namespace, theJob.Name); err != nil {
				t.Fatal(err)
			}
			if tc.now != nil {
				if err := f.trainer.Tracker().Add(tc.now); err != nil {
					t.Fatal(err)
				}
			}
			_, err := f.sync()
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			f.wantWrites(tc.want...)
		})
	}
}

func TestSyncExaminesAJobSetThatTheCacheDoesNotShow(t *testing.T) {
	job := builders.TrainJob("a")
	cases := map[string]struct {
		jobSet *jobset.JobSet
		reason string
	}{
		"its own":          {builders.JobSetOf(job, upToDate(job)), trainer.ReasonWaitingForPods},
		"a stranger's":     {builders.JobSetOf(job, func(js *jobset.JobSet) { js.OwnerReferences = nil }), trainer.ReasonJobSetConflict},
		"an earlier job's": {builders.JobSetOf(job, ownedBy(builders.TrainJob("a", builders.UID("older")))), trainer.ReasonJobSetConflict},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			f.live(tc.jobSet)
			result, err := f.sync()
			if err != nil || result.After == 0 || result.After > lookAgain {
				t.Errorf("got %v, %v, want to look again within %v", result, err, lookAgain)
			}
			if reason, _ := f.pending(); reason != tc.reason {
				t.Errorf("reason %s, want %s", reason, tc.reason)
			}
			f.wantWrites("create jobsets", "patch trainjobs/status")
		})
	}
}

func TestSyncLooksForTheJobSetOfAnotherControllerBeforeItWrites(t *testing.T) {
	inherited := func(job *trainer.TrainJob) { job.Status.JobsStatus = []trainer.JobStatus{{Name: "node", Ready: 1}} }
	job := builders.TrainJob("a", inherited)
	cases := map[string]struct {
		jobSet *jobset.JobSet
		writes []string
		want   []trainer.JobStatus
	}{
		"it is there": {builders.JobSetOf(job, builders.Jobs(builders.Ready("node"))), []string{"patch trainjobs/status"}, []trainer.JobStatus{{Name: "node", Active: 1, Ready: 1}}},
		"it is not":   {nil, []string{"create jobsets", "patch trainjobs/status"}, []trainer.JobStatus{{Name: "node"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			if tc.jobSet != nil {
				f.live(tc.jobSet)
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.writes...)
			got, err := f.trainer.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(t.Context(), theJob.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Status.JobsStatus); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncTellsWhyAJobSetWasRefusedAndTriesAgain(t *testing.T) {
	jobSets := schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}
	cases := map[string]struct {
		err     error
		message string
	}{
		"forbidden": {apierrors.NewForbidden(jobSets, "a", errors.New("exceeded quota")), "the JobSet cannot be created: "},
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{Kind: "JobSet"}, "a", nil), `the JobSet built from the snapshot and the job was refused; correct the job, or correct the runtime and delete ConfigMap "a-runtime-snapshot"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a")
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			f.refuse("create", tc.err)
			if _, err := f.sync(); !errors.Is(err, tc.err) {
				t.Errorf("error %v does not bring it back for another try", err)
			}
			reason, message := f.pending()
			if reason != trainer.ReasonCreationFailed || !strings.HasPrefix(message, tc.message) {
				t.Errorf("got %s: %s\nwant %s: %s…", reason, message, trainer.ReasonCreationFailed, tc.message)
			}
		})
	}
}

func TestSyncInATerminatingNamespaceSaysNothing(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Pending", trainer.ReasonWaitingForPods, builders.At(1)))
	f := newFixture(t, job)
	f.cached("configmaps", snapshotOf(t, job))
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "jobsets"}, "a", errors.New("namespace is being terminated"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f.refuse("create", refusal)
	if _, err := f.sync(); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("error %v, want that the namespace is going away", err)
	}
	if reason, _ := f.pending(); reason == trainer.ReasonCreationFailed {
		t.Error("a namespace that goes away is no failure of the job")
	}
}

func TestSyncResumesOnlyWhatIsStillWanted(t *testing.T) {
	held := builders.HeldBack(true)
	job := builders.TrainJob("a")
	cases := map[string]struct {
		now   *trainer.TrainJob
		live  *jobset.JobSet
		again time.Duration
		patch bool
	}{
		"both are as the caches say":          {job, builders.JobSetOf(job, held, upToDate(job)), 0, true},
		"the job has been suspended":          {builders.TrainJob("a", builders.Suspended(true)), builders.JobSetOf(job, held, upToDate(job)), lookAgain, false},
		"the job has other patches":           {job, builders.JobSetOf(job, held), lookAgain, false},
		"the JobSet runs already":             {job, builders.JobSetOf(job, builders.HeldBack(false), upToDate(job)), lookAgain, false},
		"the JobSet is another one of a name": {job, builders.JobSetOf(job, held, upToDate(job), func(js *jobset.JobSet) { js.UID = "newer" }), lookAgain, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.cached("jobsets", builders.JobSetOf(job, held, upToDate(job)))
			f.live(tc.live)
			if err := f.trainer.Tracker().Update(trainer.SchemeGroupVersion.WithResource("trainjobs"), tc.now, theJob.Namespace); err != nil {
				t.Fatal(err)
			}
			result, err := f.sync()
			if err != nil || (tc.again > 0 && result.After != tc.again) {
				t.Errorf("got %v, %v, want to look again after %v", result, err, tc.again)
			}
			if got := strings.Contains(strings.Join(f.writes(), ","), "patch jobsets"); got != tc.patch {
				t.Errorf("the JobSet was resumed: %t, want %t", got, tc.patch)
			}
		})
	}
}

func TestSyncDeletesTheJobSetOfAnOverdueJobOnly(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Failed", trainer.ReasonDeadlineExceeded, builders.At(9)))
	other := builders.TrainJob("a", builders.State("Failed", "FailedJobs", builders.At(9)))
	cases := map[string]struct {
		job    *trainer.TrainJob
		jobSet *jobset.JobSet
		want   []string
	}{
		"its own goes":                    {job, builders.JobSetOf(job), []string{"delete jobsets"}},
		"one that goes already is let go": {job, builders.JobSetOf(job, deleted), nil},
		"a stranger's stays":              {job, builders.JobSetOf(job, func(js *jobset.JobSet) { js.OwnerReferences = nil }), nil},
		"that of another failure stays":   {other, builders.JobSetOf(other), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.job)
			f.cached("jobsets", tc.jobSet)
			f.live(tc.jobSet)
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites(tc.want...)
		})
	}
}

// The cache may be half a minute behind: what has ended in the meantime stays, with the
// logs of its pods and its volume claims.
func TestSyncKeepsAJobSetThatHasEndedBeforeItsDeletion(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Failed", trainer.ReasonDeadlineExceeded, builders.At(9)))
	running := builders.JobSetOf(job)
	for name, live := range map[string]*jobset.JobSet{
		"it has completed": builders.JobSetOf(job, builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "done")),
		"it has failed":    builders.JobSetOf(job, builders.Ended(jobset.JobSetFailed, "FailedJobs", "broken")),
		"it is another":    builders.JobSetOf(job, func(js *jobset.JobSet) { js.UID = "another" }),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, job)
			f.cached("jobsets", running)
			f.live(live)
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			f.wantWrites()
		})
	}
	t.Run("it ends between the look and the deletion", func(t *testing.T) {
		f := newFixture(t, job)
		running.ResourceVersion = "7"
		f.cached("jobsets", running)
		f.live(running)
		var asked *metav1.Preconditions
		f.jobSet.PrependReactor("delete", "jobsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			asked = action.(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
			return true, nil, apierrors.NewConflict(jobset.Resource("jobsets"), "a", errors.New("it has changed"))
		})
		if _, err := f.sync(); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want the conflict, so that it is looked at again", err)
		}
		if asked == nil || asked.UID == nil || *asked.UID != running.UID || asked.ResourceVersion == nil || *asked.ResourceVersion != "7" {
			t.Errorf("preconditions %+v, want the UID and the version that was read", asked)
		}
	})
}

func TestSyncOfARefusedDeletionIsAnError(t *testing.T) {
	job := builders.TrainJob("a", builders.State("Failed", trainer.ReasonDeadlineExceeded, builders.At(9)))
	f := newFixture(t, job)
	js := builders.JobSetOf(job, builders.Jobs(builders.Ready("node")))
	f.cached("jobsets", js)
	f.live(js)
	f.refuse("delete", apierrors.NewForbidden(schema.GroupResource{Resource: "jobsets"}, "a", nil))
	if _, err := f.sync(); !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want the refusal, so that it is tried again", err)
	}
	f.wantWrites("delete jobsets", "patch trainjobs/status") // the counters are mirrored all the same
}

func TestSyncOfAJobSetThatIsGoneAlreadyWaitsForTheNews(t *testing.T) {
	job := builders.TrainJob("a", builders.Suspended(true))
	f := newFixture(t, job)
	f.cached("jobsets", builders.JobSetOf(job, builders.HeldBack(false)))
	if _, err := f.sync(); err != nil {
		t.Errorf("error %v about a JobSet whose deletion is no failure", err)
	}
}

func TestSyncWarnsOfAnEditedSnapshotOnce(t *testing.T) {
	job := builders.TrainJob("a")
	cm := snapshotOf(t, job)
	job.Status.RuntimeSnapshot = runtimesnapshot.Reference(cm)
	f := newFixture(t, job)
	f.cached("jobsets", builders.JobSetOf(job, upToDate(job)))
	for _, version := range []string{"1", "2"} {
		cm = cm.DeepCopy()
		cm.ResourceVersion, cm.Data[runtimesnapshot.DataKey] = version, "edited"
		f.cached("configmaps", cm)
		for range 3 {
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.events.Events); n != 1 {
			t.Fatalf("%d events about version %s, want one", n, version)
		}
		if event := <-f.events.Events; !strings.HasPrefix(event, "Warning SnapshotInvalid ") {
			t.Errorf("event %q", event)
		}
	}
}

func TestSyncWarnsOnceOfPatchesThatAMissedSuspensionLeftOut(t *testing.T) {
	built := builders.TrainJob("a")
	patched := builders.Patches(trainer.RuntimePatch{Manager: "example.com/me", TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Metadata: &metav1.ObjectMeta{Labels: map[string]string{"team": "one"}}},
	}})
	cases := map[string]struct {
		job    *trainer.TrainJob
		jobSet *jobset.JobSet
		want   int
	}{
		"the job has other patches than its running JobSet": {builders.TrainJob("a", patched), builders.JobSetOf(built, upToDate(built)), 1},
		"they are the same":                {built, builders.JobSetOf(built, upToDate(built)), 0},
		"an older controller left no hash": {builders.TrainJob("a", patched), builders.JobSetOf(built), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.job)
			f.cached("jobsets", tc.jobSet)
			for range 3 {
				if _, err := f.sync(); err != nil {
					t.Fatal(err)
				}
			}
			warned := 0
			for len(f.events.Events) > 0 {
				if strings.HasPrefix(<-f.events.Events, "Warning PatchNotApplied ") {
					warned++
				}
			}
			if warned != tc.want {
				t.Errorf("%d warnings, want %d", warned, tc.want)
			}
		})
	}
}

func TestAWarningIsGivenAgainWhenItIsNews(t *testing.T) {
	var w warnings
	first, second := builders.TrainJob("a"), builders.TrainJob("a", builders.UID("second"))
	for i, step := range []struct {
		job         *trainer.TrainJob
		thing, what string
		want        bool
	}{
		{first, "patches", "", false},
		{first, "patches", "one", true},
		{first, "patches", "one", false},
		{first, "snapshot", "one", true},
		{first, "patches", "two", true},
		{first, "patches", "", false}, // it is right again
		{first, "patches", "two", true},
		{second, "patches", "two", true}, // another job of that name
		{second, "patches", "two", false},
	} {
		if got := w.first(step.job, step.thing, step.what); got != step.want {
			t.Errorf("step %d: told: %t, want %t", i+1, got, step.want)
		}
	}
}

func TestSyncRecordsTheNumberOfNodesWhoeverMadeTheJobSet(t *testing.T) {
	for name, opts := range map[string][]builders.JobOption{
		"made just before a crash": nil,
		"not made yet":             {builders.Suspended(true)},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", opts...)
			f := newFixture(t, job)
			f.cached("configmaps", snapshotOf(t, job))
			if !trainjob.Suspended(job) {
				f.cached("jobsets", builders.JobSetOf(job, upToDate(job)))
			}
			if _, err := f.sync(); err != nil {
				t.Fatal(err)
			}
			written, err := f.trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
			if err != nil || written.Status.Nodes == nil || *written.Status.Nodes != 2 {
				t.Errorf("%v; nodes %v, want 2", err, written.Status.Nodes)
			}
		})
	}
}

func TestSoonestIsTheEarlierWish(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{
		{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {1, 2, 1}, {2, 1, 1},
	} {
		if got := soonest(queue.Result{After: tc.a}, queue.Result{After: tc.b}); got.After != tc.want {
			t.Errorf("soonest of %d and %d is %d, want %d", tc.a, tc.b, got.After, tc.want)
		}
	}
}
