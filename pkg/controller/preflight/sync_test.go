package preflight

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetfake "sigs.k8s.io/jobset/client-go/clientset/versioned/fake"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/fakes"
)

var theJob = cache.ObjectName{Namespace: builders.Namespace, Name: "a"}

// fixture is a controller between caches that hold what a test puts in.
type fixture struct {
	t          *testing.T
	controller *Controller
	client     *trainerfake.Clientset
	core       *kubefake.Clientset
	events     *record.FakeRecorder
	jobs       cache.Indexer
	clock      *clocktesting.FakeClock
}

func newFixture(t *testing.T, quarantine time.Duration, job *trainer.TrainJob, pods ...*corev1.Pod) *fixture {
	t.Helper()
	f := &fixture{
		t: t, client: fakes.Trainer(job), events: record.NewFakeRecorder(50), clock: clocktesting.NewFakeClock(builders.At(60)),
		core: kubefake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
	}
	jobs := trainerinformers.NewSharedInformerFactory(f.client, 0).Trainer().V1alpha1().TrainJobs()
	jobSets := jobsetinformers.NewSharedInformerFactory(jobsetfake.NewClientset(), 0).Jobset().V1alpha2().JobSets()
	watched := coreinformers.NewPodInformer(f.core, metav1.NamespaceAll, 0, cache.Indexers{})
	var err error
	f.controller, err = New(Config{
		Client: f.client.TrainerV1alpha1(), Jobs: jobs, JobSets: jobSets, Pods: watched, Nodes: f.core.CoreV1(),
		Recorder: f.events, Clock: f.clock, Quarantine: quarantine,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.jobs = jobs.Informer().GetIndexer()
	put := func(indexer cache.Indexer, object any) {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	put(f.jobs, job)
	put(jobSets.Informer().GetIndexer(), &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: job.Name, UID: "js", OwnerReferences: []metav1.OwnerReference{trainjob.OwnerReference(job)},
		Labels: map[string]string{trainer.LabelPreflight: trainer.ContainerPreflight},
	}})
	for _, pod := range pods {
		put(watched.GetIndexer(), pod)
	}
	return f
}

// sync syncs the job, and puts what was written into the cache.
func (f *fixture) sync() *trainer.TrainJob {
	f.t.Helper()
	if _, err := f.controller.sync(context.Background(), theJob); err != nil {
		f.t.Fatal(err)
	}
	job, err := f.client.TrainerV1alpha1().TrainJobs(theJob.Namespace).Get(context.Background(), theJob.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.jobs.Update(job); err != nil {
		f.t.Fatal(err)
	}
	return job
}

func (f *fixture) patches() int {
	n := 0
	for _, action := range f.client.Actions() {
		if action.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func TestTheReportGetsIntoTheStatusOnce(t *testing.T) {
	f := newFixture(t, 0, builders.TrainJob("a"), podOf("2", "n1", 30, fatal, 5))
	job := f.sync()
	if p := job.Status.Preflight; p == nil || p.Outcome != "Fatal" || p.Reason != "CUDADriverTooOld" || len(p.Nodes) != 1 {
		t.Fatalf("status.preflight is %+v", p)
	}
	if job.Status.State != "" || len(job.Status.Conditions) != 0 {
		t.Errorf("more than status.preflight was written: %+v", job.Status)
	}
	f.sync()
	if n := f.patches(); n != 1 {
		t.Errorf("%d patches", n)
	}
	if len(f.events.Events) != 1 {
		t.Fatalf("%d events", len(f.events.Events))
	}
	if event := <-f.events.Events; !strings.Contains(event, `Warning CUDADriverTooOld Preflight of rank 2 on node "n1": cuda: too old (exit code 30, Stop)`) {
		t.Errorf("the event is %q", event)
	}
}

func TestJobsThatAreNotOursOrHaveEndedAreLeftAlone(t *testing.T) {
	for name, job := range map[string]*trainer.TrainJob{
		"managed by another": builders.TrainJob("a", builders.ManagedBy(trainer.ManagedByMultiKueue)),
		"finished":           builders.TrainJob("a", builders.State(trainer.TrainJobFailed, "Because", builders.At(1))),
	} {
		f := newFixture(t, time.Hour, job, podOf("0", "n0", 21, lost, 5))
		f.sync()
		if f.patches() != 0 || len(f.events.Events) != 0 || len(f.core.Actions()) != 0 {
			t.Errorf("%s: %v, %d events, %v", name, f.client.Actions(), len(f.events.Events), f.core.Actions())
		}
	}
}

func TestPodsOfAnotherJobSetDoNotCount(t *testing.T) {
	pod := podOf("0", "n0", 30, fatal, 5)
	pod.Labels[jobset.JobSetUIDKey] = "an earlier one"
	f := newFixture(t, 0, builders.TrainJob("a"), pod)
	if job := f.sync(); job.Status.Preflight != nil {
		t.Errorf("status.preflight is %+v", job.Status.Preflight)
	}
}

func (f *fixture) mark(node string) string {
	f.t.Helper()
	found, err := f.core.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return found.Labels[LabelQuarantined]
}

func TestAFaultyNodeIsMarkedUntilItsTimeIsOver(t *testing.T) {
	f := newFixture(t, time.Hour, builders.TrainJob("a"), podOf("0", "n0", 21, lost, 50), podOf("1", "n1", 30, fatal, 50))
	f.sync()
	if f.mark("n0") == "" || f.mark("n1") != "" {
		t.Errorf("marks: %q, %q", f.mark("n0"), f.mark("n1"))
	}
	writes := len(f.core.Actions())
	f.sync()
	for _, action := range f.core.Actions()[writes:] {
		if action.GetVerb() == "patch" {
			t.Error("the same report has marked the node twice")
		}
	}
	sweep := func() {
		t.Helper()
		if err := f.controller.wards.sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	f.clock.SetTime(builders.At(50 + 3599))
	if sweep(); f.mark("n0") == "" {
		t.Error("the mark is gone too early")
	}
	f.clock.SetTime(builders.At(50 + 3601))
	if sweep(); f.mark("n0") != "" {
		t.Error("the mark stays")
	}
	// The pod may still be there; its report is old.
	if f.sync(); f.mark("n0") != "" {
		t.Error("the node is marked again")
	}
}

func TestNoNodeIsMarkedUnlessAsked(t *testing.T) {
	f := newFixture(t, 0, builders.TrainJob("a"), podOf("0", "n0", 21, lost, 50))
	f.sync()
	if len(f.core.Actions()) != 0 {
		t.Errorf("%v", f.core.Actions())
	}
}

func TestReportsCannotTakeTheWholeCluster(t *testing.T) {
	f := newFixture(t, time.Hour, builders.TrainJob("a"), podOf("0", "n0", 21, lost, 50))
	for i := range mostQuarantined {
		name := "full-" + strings.Repeat("x", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelQuarantined: "9999999999"}}}
		if _, err := f.core.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if f.sync(); f.mark("n0") != "" {
		t.Error("one node more was marked")
	}
}

// Without a JobSet that has the label no pod is ever asked for.
func TestPodsAreWatchedOnlyOnceThereIsAJobSetWithPreflight(t *testing.T) {
	f := newFixture(t, 0, builders.TrainJob("a"))
	f.controller.enqueueJobSet(&jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "plain"}})
	select {
	case <-f.controller.needed:
		t.Fatal("a JobSet without the label starts the watch")
	default:
	}
	for range 2 {
		f.controller.enqueueJobSet(&jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "checked", Labels: map[string]string{trainer.LabelPreflight: "preflight"}}})
	}
	select {
	case <-f.controller.needed:
	default:
		t.Error("a JobSet with the label does not")
	}
	if f.controller.queue.Len() != 1 {
		t.Errorf("%d keys", f.controller.queue.Len())
	}
}
