package census

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/test/builders"
)

func indexer(t testing.TB, objects ...any) cache.Indexer {
	t.Helper()
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, object := range objects {
		if err := index.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return index
}

// taker counts the jobs, a minute after the epoch. Cluster-wide runtimes are torch, with
// that framework, and plain, without one; there is one namespaced runtime, own, for jax.
func taker(t testing.TB, jobs ...any) Taker {
	t.Helper()
	jax := builders.PlainSpec()
	jax.MLPolicy = &trainer.MLPolicy{MLPolicySource: trainer.MLPolicySource{JAX: &trainer.JAXMLPolicySource{}}}
	return Taker{
		Jobs: trainerlisters.NewTrainJobLister(indexer(t, jobs...)),
		ClusterRuntimes: trainerlisters.NewClusterTrainingRuntimeLister(indexer(t,
			builders.ClusterTrainingRuntime("torch", builders.TorchSpec()), builders.ClusterTrainingRuntime("plain", builders.PlainSpec()))),
		NamespaceRuntimes: trainerlisters.NewTrainingRuntimeLister(indexer(t, builders.TrainingRuntime("own", jax))),
		Clock:             clocktesting.NewFakePassiveClock(builders.At(60)),
	}
}

// found leaves the zeros out.
func found(census *metrics.Census) (map[metrics.Group]int, map[string]metrics.Waiting) {
	for g, n := range census.Jobs {
		if n == 0 {
			delete(census.Jobs, g)
		}
	}
	for r, w := range census.Pending {
		if w.Jobs == 0 {
			delete(census.Pending, r)
		}
	}
	return census.Jobs, census.Pending
}

// ended is a condition without a state, as Trainer v2.3 leaves it.
func ended(condition string) builders.JobOption {
	return builders.Condition(condition, "Other", builders.At(1))
}

func TestJobsAreCountedByStateRuntimeAndFramework(t *testing.T) {
	running := builders.State("Running", "PodsReady", builders.At(1))
	cases := map[string]struct {
		job  *trainer.TrainJob
		want metrics.Group
	}{
		"a job that nobody has looked at": {builders.TrainJob("a"), metrics.Group{State: "Unknown", Runtime: "torch", Framework: "torch"}},
		"a running job":                   {builders.TrainJob("a", running), metrics.Group{State: "Running", Runtime: "torch", Framework: "torch"}},
		"a runtime without a framework": {builders.TrainJob("a", running, builders.Runtime(trainer.ClusterTrainingRuntimeKind, "plain")),
			metrics.Group{State: "Running", Runtime: "plain", Framework: "none"}},
		"a namespaced runtime": {builders.TrainJob("a", running, builders.Runtime(trainer.TrainingRuntimeKind, "own")),
			metrics.Group{State: "Running", Runtime: "(namespaced)", Framework: "jax"}},
		"a namespaced runtime that is gone": {builders.TrainJob("a", running, builders.Runtime(trainer.TrainingRuntimeKind, "gone")),
			metrics.Group{State: "Running", Runtime: "(namespaced)", Framework: "unknown"}},
		"a cluster-wide runtime that is gone": {builders.TrainJob("a", running, builders.Runtime(trainer.ClusterTrainingRuntimeKind, "gone")),
			metrics.Group{State: "Running", Runtime: "(missing)", Framework: "unknown"}},
		"a kind unknown": {builders.TrainJob("a", running, builders.Runtime("Foo", "torch")),
			metrics.Group{State: "Running", Runtime: "(other)", Framework: "unknown"}},
		"a group unknown": {builders.TrainJob("a", running, func(job *trainer.TrainJob) {
			group := "example.com"
			job.Spec.RuntimeRef.APIGroup = &group
		}), metrics.Group{State: "Running", Runtime: "(other)", Framework: "unknown"}},
		"a state that another writer made up": {builders.TrainJob("a", func(job *trainer.TrainJob) { job.Status.State = "Dreaming" }),
			metrics.Group{State: "Unknown", Runtime: "torch", Framework: "torch"}},
		"a job that completed under a controller without states": {builders.TrainJob("a", ended("Complete")),
			metrics.Group{State: "Complete", Runtime: "torch", Framework: "torch"}},
		"a job that failed under one": {builders.TrainJob("a", ended("Failed")),
			metrics.Group{State: "Failed", Runtime: "torch", Framework: "torch"}},
		"a job that such a controller left unfinished": {builders.TrainJob("a", ended("Suspended")),
			metrics.Group{State: "Unknown", Runtime: "torch", Framework: "torch"}},
		"a job that has not failed": {builders.TrainJob("a", ended("Failed"), func(job *trainer.TrainJob) { job.Status.Conditions[0].Status = metav1.ConditionFalse }),
			metrics.Group{State: "Unknown", Runtime: "torch", Framework: "torch"}},
		"a reference as old clients write it": {builders.TrainJob("a", running, func(job *trainer.TrainJob) {
			job.Spec.RuntimeRef = trainer.RuntimeRef{Name: "plain"}
		}), metrics.Group{State: "Running", Runtime: "plain", Framework: "none"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			census := taker(t, tc.job).Take()
			if n := len(census.Jobs); n != len(states) {
				t.Errorf("%d counts, want one for each of the %d states", n, len(states))
			}
			got, _ := found(census)
			if diff := cmp.Diff(map[metrics.Group]int{tc.want: 1}, got); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPendingJobsAreCountedByReasonWithTheLongestWait(t *testing.T) {
	pending := func(name, reason string, since int) *trainer.TrainJob {
		return builders.TrainJob(name, builders.State("Pending", reason, builders.At(since)))
	}
	was := pending("was", trainer.ReasonCreationFailed, 1)
	was.Status.State = trainer.TrainJobRunning
	_, got := found(taker(t, pending("a", trainer.ReasonWaitingForPods, 50), pending("b", trainer.ReasonWaitingForPods, 10),
		pending("c", trainer.ReasonRuntimeInvalid, 60), pending("d", "MadeUp", 1), was).Take())
	want := map[string]metrics.Waiting{
		trainer.ReasonWaitingForPods: {Jobs: 2, Longest: 50 * time.Second},
		trainer.ReasonRuntimeInvalid: {Jobs: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func TestJobsOfOtherControllersAreNotCounted(t *testing.T) {
	census := taker(t, builders.TrainJob("a", builders.ManagedBy("kueue.x-k8s.io/multikueue"))).Take()
	if len(census.Jobs) > 0 {
		t.Errorf("counted %v", census.Jobs)
	}
}

func TestUsersCannotMakeAnyNumberOfSeries(t *testing.T) {
	var jobs, runtimes []any
	for i := range 3 * maxRuntimes {
		name := fmt.Sprintf("r%03d", i)
		runtimes = append(runtimes, builders.ClusterTrainingRuntime(name, builders.TorchSpec()))
		jobs = append(jobs, builders.TrainJob("c-"+name, builders.Runtime(trainer.ClusterTrainingRuntimeKind, name)),
			builders.TrainJob("n-"+name, builders.Runtime(trainer.TrainingRuntimeKind, name)),
			builders.TrainJob("m-"+name, builders.Runtime(trainer.ClusterTrainingRuntimeKind, "missing-"+name)))
	}
	all := taker(t, jobs...)
	all.ClusterRuntimes = trainerlisters.NewClusterTrainingRuntimeLister(indexer(t, runtimes...))
	byRuntime := map[string]int{}
	for group, n := range all.Take().Jobs {
		byRuntime[group.Runtime] += n
	}
	want := map[string]int{Namespaced: 3 * maxRuntimes, Missing: 3 * maxRuntimes, Other: 2 * maxRuntimes}
	for i := range maxRuntimes {
		want[fmt.Sprintf("r%03d", i)] = 1
	}
	if diff := cmp.Diff(want, byRuntime); diff != "" {
		t.Errorf("jobs by runtime (-want +got):\n%s", diff)
	}
}

// BenchmarkTake is what a scrape costs with 10,000 jobs.
func BenchmarkTake(b *testing.B) {
	var jobs []any
	for i := range 10000 {
		state := []string{"Running", "Complete", "Failed"}[i%3]
		if i%10 == 0 {
			state = "Pending"
		}
		jobs = append(jobs, builders.TrainJob(fmt.Sprintf("job-%d", i), builders.State(trainer.TrainJobState(state), trainer.ReasonWaitingForPods, builders.At(1))))
	}
	all := taker(b, jobs...)
	b.ReportAllocs()
	for b.Loop() {
		all.Take()
	}
}
