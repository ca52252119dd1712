package process

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/harness"
)

// served is what a controller serves at /metrics: the series by their name.
func served(t *testing.T, c *harness.Controller) testutil.Metrics {
	t.Helper()
	body, err := c.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	all := testutil.NewMetrics()
	if err := testutil.ParseMetrics(body, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// reading is the sum of the series of a name that have the labels.
func reading(all testutil.Metrics, name string, labels map[string]string) float64 {
	var sum float64
	for _, series := range all[name] {
		matches := true
		for label, value := range series.Metric {
			if want, asked := labels[string(label)]; asked && want != string(value) {
				matches = false
			}
		}
		if matches {
			sum += float64(series.Value)
		}
	}
	return sum
}

// awaitReading waits until a metric has a value.
func awaitReading(t *testing.T, want float64, name string, labels map[string]string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, func() string {
		if got := reading(served(t, env.Controller), name, labels); got != want {
			return fmt.Sprintf("%s%v is %v, want %v", name, labels, got, want)
		}
		return ""
	})
}

// play makes a JobSet's status what its controller would make it.
func play(t *testing.T, namespace, name, status string) {
	t.Helper()
	_, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

const (
	playedReady = `{"replicatedJobsStatus":[{"name":"node","ready":1,"active":1,"succeeded":0,"failed":0,"suspended":0}]}`
	playedEnd   = `{"terminalState":"Completed","conditions":[{"type":"Completed","status":"True","reason":"AllJobsCompleted","message":"done","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`
)

func TestEachMomentOfAJobIsMeasuredOnceWhateverRestarts(t *testing.T) {
	alone(t)
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	restart := func() {
		t.Helper()
		if env.Controller != nil {
			if err := env.KillController(); err != nil {
				t.Fatal(err)
			}
		}
		if err := env.StartController(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	t.Cleanup(func() {
		if err := env.StopController(); err != nil {
			t.Error(err)
		}
	})
	const started, ran, ended = "trainjob_controller_trainjob_jobset_delay_seconds_count", "trainjob_controller_trainjob_running_delay_seconds_count", "trainjob_controller_trainjob_finish_delay_seconds_count"
	fresh := map[string]string{"queued": "false"}
	measured := func() []float64 {
		all := served(t, env.Controller)
		return []float64{reading(all, started, fresh), reading(all, ran, fresh), reading(all, ended, nil)}
	}

	env.Create(t, newJob(namespace, "job"))
	awaitReading(t, 1, started, fresh)
	counted := map[string]string{"state": "Pending", "runtime": "(namespaced)", "framework": "none"}
	awaitReading(t, 1, "trainjob_controller_trainjobs", counted)
	awaitReading(t, 1, "trainjob_controller_trainjobs_pending", map[string]string{"reason": trainer.ReasonWaitingForPods})

	restart()
	play(t, namespace, "job", playedReady)
	awaitReading(t, 1, ran, fresh)
	if diff := cmp.Diff([]float64{0, 1, 0}, measured()); diff != "" {
		t.Errorf("started, ran and ended, after a restart (-want +got):\n%s", diff)
	}

	restart()
	play(t, namespace, "job", playedEnd)
	awaitReading(t, 1, ended, map[string]string{"result": "Complete"})
	if diff := cmp.Diff([]float64{0, 0, 1}, measured()); diff != "" {
		t.Errorf("started, ran and ended, after another (-want +got):\n%s", diff)
	}
}

func TestWritesAreCountedByResourceAndCode(t *testing.T) {
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	before := served(t, env.Controller)
	env.Create(t, newJob(namespace, "job"))
	env.AwaitState(t, namespace, "job", trainer.TrainJobPending, trainer.ReasonWaitingForPods, 30*time.Second)
	after := served(t, env.Controller)
	for _, labels := range []map[string]string{
		{"verb": "create", "resource": "configmaps", "code": "201"},
		{"verb": "create", "resource": "jobsets", "code": "201"},
		{"verb": "patch", "resource": "trainjobs/status", "code": "200"},
	} {
		const name = "trainjob_controller_api_writes_total"
		if more := reading(after, name, labels) - reading(before, name, labels); more != 1 {
			t.Errorf("%v more writes %v, want 1", more, labels)
		}
	}
}

func TestOnlyTheLeaderCountsJobs(t *testing.T) {
	alone(t)
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	flags := electionFlags(t)
	first := replica(t, "first", flags...)
	awaitLeader(t)
	second := replica(t, "second", flags...)
	env.Create(t, newJob(namespace, "job"))
	env.AwaitState(t, namespace, "job", trainer.TrainJobPending, trainer.ReasonWaitingForPods, 30*time.Second)
	told := func(c *harness.Controller) []float64 {
		all := served(t, c)
		return []float64{reading(all, "trainjob_controller_leader", nil), reading(all, "leader_election_master_status", nil), min(1, reading(all, "trainjob_controller_trainjobs", nil))}
	}
	if diff := cmp.Diff([][]float64{{1, 1, 1}, {0, 0, 0}}, [][]float64{told(first), told(second)}); diff != "" {
		t.Errorf("leader, its lease and whether it counts jobs, of both replicas (-want +got):\n%s", diff)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 30*time.Second, func() string {
		return cmp.Diff([]float64{1, 1, 1}, told(second))
	})
}

// TestWhatIsServedIsOnThePage checks the page that is generated in a unit test against a
// real controller, which has done real work.
func TestWhatIsServedIsOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.SourceDir(), "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		known[row[1]] = nil
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			known[row[1]] = append(known[row[1]], label[1])
		}
	}
	ours := 0
	for name, all := range served(t, env.Controller) {
		if !strings.HasPrefix(name, "trainjob_") && !strings.HasPrefix(name, "workqueue_") {
			continue
		}
		ours++
		histogram := regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
		if _, found := known[histogram]; found {
			name = histogram
		}
		labels := map[string]bool{}
		for _, series := range all {
			for label := range series.Metric {
				if label != "__name__" && label != "le" {
					labels[string(label)] = true
				}
			}
		}
		if diff := cmp.Diff(known[name], slices.Sorted(maps.Keys(labels))); diff != "" || known[name] == nil && len(labels) > 0 {
			t.Errorf("%s: labels (-on the page +served):\n%s", name, diff)
		}
		if _, found := known[name]; !found {
			t.Errorf("%s is not on the page", name)
		}
	}
	if ours < 15 {
		t.Errorf("%d metrics are served, want more: the test looks past them", ours)
	}
}

func TestProfilesAreServedOnlyWhenAskedFor(t *testing.T) {
	if body, err := env.Controller.Get(t.Context(), "/debug/pprof/"); err == nil {
		t.Errorf("served without --profiling:\n%s", body)
	}
	alone(t)
	c := replica(t, "profiled", "--profiling", "--contention-profiling")
	for path, want := range map[string]string{
		"/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "goroutine profile:", "/debug/pprof/mutex?debug=1": "sampling period=1",
		"/debug/pprof/cmdline": "--profiling", "/debug/pprof/profile?seconds=1": "",
	} {
		if body, err := c.Get(t.Context(), path); err != nil || !strings.Contains(body, want) || body == "" {
			t.Errorf("%s: error %v, %q is not in %.200q", path, err, want, body)
		}
	}
}

func TestVerbosityCanBeSetForOneSourceFile(t *testing.T) {
	alone(t)
	logFile := filepath.Join(t.TempDir(), "verbose.log")
	c, err := harness.StartController(t.Context(), env.Binary, env.ControllerKubeconfig(), logFile, "--vmodule=queue=2")
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	harness.Eventually(t, 30*time.Second, func() string {
		if log, err = os.ReadFile(logFile); err != nil || !strings.Contains(string(log), "Started workers") {
			return fmt.Sprintf("error %v; no line of queue.go with verbosity 2 in\n%s", err, log)
		}
		return ""
	})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "reflector.go") {
		t.Errorf("other files are detailed too:\n%s", log)
	}
}
