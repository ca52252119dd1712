package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/component-base/version"
)

// exercise calls every method once with every label value, and with one that
// nobody declared.
func exercise(m *Metrics) {
	for _, queue := range append(Queues(), "my-job-1") {
		for _, result := range append(Results(), "exploded") {
			m.SyncDone(queue, result, 3*time.Millisecond)
		}
		m.SyncPanicked(queue)
	}
	m.SnapshotTaken()
	for _, reason := range append(Refusals(), "my mood") {
		m.SnapshotRefused(reason)
	}
	m.JobSetCreated()
	m.DeadlineEnforced(1500 * time.Millisecond)
	m.TTLEnforced(-time.Second)
	m.Leading(true)
	for _, queued := range []bool{true, false} {
		m.JobStarted(queued, time.Second)
		m.JobRunning(queued, time.Second)
	}
	for _, outcome := range append(Outcomes(), "exploded") {
		m.JobFinished(outcome, time.Second)
	}
	for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE", "GET"} {
		for _, resource := range append(slices.Clone(writtenResources), "my-job-1") {
			send(m, verb, "/api/v1/namespaces/n/"+withName(resource))
		}
	}
}

// withName is the path of a resource, or of its subresource, below its namespace.
func withName(resource string) string {
	name, subresource, _ := strings.Cut(resource, "/")
	return strings.TrimSuffix(name+"/my-job-1/"+subresource, "/")
}

// answer is an API server that has one answer, or none.
type answer int

func (code answer) RoundTrip(*http.Request) (*http.Response, error) {
	if code == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: int(code), Body: http.NoBody}, nil
}

func send(m *Metrics, method, path string) {
	request := httptest.NewRequest(method, "https://127.0.0.1"+path, nil)
	response, err := m.CountWrites(answer(http.StatusOK)).RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
}

func gather(t *testing.T, registry metrics.KubeRegistry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, family := range families {
		byName[family.GetName()] = family
	}
	return byName
}

func TestEveryMetricIsRegisteredOnceWithHelpAndFixedLabels(t *testing.T) {
	m, registry := New(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	if err := registry.CustomRegister(NewJobs(aCensus)); err != nil {
		t.Fatal(err)
	}
	exercise(m)
	families := gather(t, registry)

	queues, results := append(strs(Queues()), other), append(strs(Results()), other)
	queued := []string{"true", "false"}
	want := map[string]map[string][]string{ // metric -> label -> its values, nil if free
		"trainjob_controller_sync_duration_seconds":          {"queue": queues, "result": results},
		"trainjob_controller_sync_panics_total":              {"queue": queues},
		"trainjob_controller_snapshots_taken_total":          {},
		"trainjob_controller_jobsets_created_total":          {},
		"trainjob_controller_snapshots_refused_total":        {"reason": append(strs(Refusals()), other)},
		"trainjob_controller_timer_waiting_jobs":             {"timer": strs(Timers())},
		"trainjob_controller_timer_overdue_longest_seconds":  {"timer": strs(Timers())},
		"trainjob_controller_deadline_lateness_seconds":      {},
		"trainjob_controller_ttl_lateness_seconds":           {},
		"trainjob_controller_leader":                         {},
		"trainjob_controller_trainjob_jobset_delay_seconds":  {"queued": queued},
		"trainjob_controller_trainjob_running_delay_seconds": {"queued": queued},
		"trainjob_controller_trainjob_finish_delay_seconds":  {"result": {"Complete", "Failed", other}},
		"trainjob_controller_api_writes_total": {
			"verb": {"create", "update", "patch", "delete"}, "resource": append([]string{other}, writtenResources...), "code": {"200"},
		},
		"trainjob_controller_trainjobs":                         {"state": {"Running"}, "runtime": {"torch"}, "framework": {"torch"}},
		"trainjob_controller_trainjobs_pending":                 {"reason": {"WaitingForPods"}},
		"trainjob_controller_trainjobs_pending_longest_seconds": {"reason": {"WaitingForPods"}},
		"trainjob_controller_build_info": {
			"version": nil, "git_commit": nil, "build_date": nil, "go_version": nil, "platform": nil,
		},
	}
	for name, family := range families {
		labels, known := want[name]
		if !known {
			t.Errorf("unexpected metric %s", name)
			continue
		}
		if help := strings.TrimPrefix(family.GetHelp(), "[ALPHA] "); !strings.HasSuffix(help, ".") {
			t.Errorf("%s has the help %q, want a sentence", name, help)
		}
		got := map[string][]string{}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				value := label.GetValue()
				if values := labels[label.GetName()]; values != nil && !slices.Contains(values, value) {
					t.Errorf("%s has the value %q of label %s", name, value, label.GetName())
				}
				got[label.GetName()] = append(got[label.GetName()], value)
			}
		}
		if diff := cmp.Diff(len(labels), len(got)); diff != "" {
			t.Errorf("number of labels of %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(len(want), len(families)); diff != "" {
		t.Errorf("number of metrics (-want +got):\n%s", diff)
	}
	problems, err := testutil.NewPromLinter(strings.NewReader(text(t, families))).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func text(t *testing.T, families map[string]*dto.MetricFamily) string {
	t.Helper()
	var b strings.Builder
	for _, family := range families {
		if _, err := testutil.MetricFamilyToText(&b, family); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestLatenessIsNeverNegative(t *testing.T) {
	m, registry := New(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	exercise(m)
	families := gather(t, registry)
	for name, want := range map[string]float64{
		"trainjob_controller_deadline_lateness_seconds": 1.5,
		"trainjob_controller_ttl_lateness_seconds":      0,
	} {
		if got := families[name].GetMetric()[0].GetHistogram().GetSampleSum(); got != want {
			t.Errorf("%s has the sum %v, want %v", name, got, want)
		}
	}
}

func TestUnregisteredMetricsAreNoOps(t *testing.T) {
	exercise(New())
}

func TestRegisterReportsEveryRefusal(t *testing.T) {
	refused := errors.New("refused")
	var names []string
	err := New().Register(func(metric metrics.Registerable) error {
		names = append(names, metric.FQName())
		return refused
	}, func(metrics.StableCollector) error {
		names = append(names, "trainjob_controller_timer_waiting_jobs")
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatalf("got %v", err)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestHandlerServesOurMetricsAndThoseOfTheLibraries(t *testing.T) {
	m := serving(t)
	m.SnapshotTaken()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: string(QueueTTL)})
	defer queue.ShutDown()
	queue.Add("x")

	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"trainjob_controller_snapshots_taken_total ",
		`trainjob_controller_build_info{`,
		`workqueue_depth{name="ttl"} 1`,
		"process_start_time_seconds",
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the answer has no %q", want)
		}
	}

	if err := New().Register(legacyregistry.Register, legacyregistry.CustomRegister); err == nil {
		t.Error("a second set of the same metrics was accepted")
	}
}

func TestTheDateOfABuildThatHasNoneIsEmpty(t *testing.T) {
	for given, want := range map[string]string{
		version.Get().BuildDate: "", // that of a test
		"2026-07-01T12:00:00Z":  "2026-07-01T12:00:00Z",
	} {
		if got := buildDate(given); got != want {
			t.Errorf("build date %q for %q, want %q", got, given, want)
		}
	}
}

// A series that appears with 1 has not increased for whoever evaluates increase().
func TestWhatShouldNotHappenIsCountedFromZero(t *testing.T) {
	_, registry := registered(t)
	families := gather(t, registry)
	for name, want := range map[string][]string{
		"trainjob_controller_sync_panics_total":       strs(Queues()),
		"trainjob_controller_snapshots_refused_total": strs(Refusals()),
	} {
		var got []string
		for _, series := range families[name].GetMetric() {
			if series.GetCounter().GetValue() == 0 {
				got = append(got, series.GetLabel()[0].GetValue())
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, series with 0 (-want +got):\n%s", name, diff)
		}
	}
}
