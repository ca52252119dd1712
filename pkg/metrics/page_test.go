package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// onlyOnce puts all metrics into the registry that Handler serves, which can be done once.
var onlyOnce = sync.OnceValues(func() (*Metrics, error) {
	m, webhook := New(), NewWebhook("/path")
	err := errors.Join(m.Register(legacyregistry.Register, legacyregistry.CustomRegister), legacyregistry.CustomRegister(NewJobs(aCensus)), webhook.Register(legacyregistry.Register))
	webhook.Reviewed("/path", ReviewAllowed, time.Millisecond)
	webhook.CertificateExpires(time.Unix(1800000000, 0))
	return m, err
})

func serving(t *testing.T) *Metrics {
	t.Helper()
	m, err := onlyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// noLock is a lease that nobody can read.
type noLock struct{ resourcelock.Interface }

func (noLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, errors.New("no API server")
}
func (noLock) Identity() string   { return "me" }
func (noLock) Describe() string   { return "nothing" }
func (noLock) RecordEvent(string) {}

// exerciseLibraries makes a queue, a client and a candidate for leadership do what makes
// their metrics appear.
func exerciseLibraries(t *testing.T) {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: string(QueueJobSet)})
	defer queue.ShutDown()
	queue.Add("x")
	queue.AddRateLimited("y")
	key, _ := queue.Get()
	queue.Done(key)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x"}}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 1000, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has to wait for the limit
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: noLock{}, Name: "trainjob-controller", LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sections of the page: a heading, what it says, and the metrics that belong there. Of
// the many metrics about the process and the Go runtime those are named that do not
// depend on the operating system or the version of Go.
var sections = []struct {
	heading, text string
	belongs       func(name string) bool
}{
	{"TrainJobs and the controller", "All begin with `trainjob_controller_`. No label holds the name of a job or of a namespace.", prefixed("trainjob_controller_")},
	{"Work queues", "From client-go. `name` is the queue: `snapshot`, `jobset`, `deadline`, `ttl`, `preflight`. `workqueue_retries_total` counts every key that is to come back after some time, those that wait for a deadline too; failures are the results in `trainjob_controller_sync_duration_seconds`.", prefixed("workqueue_")},
	{"Calls to the API server", "From client-go. Lists, watches and writes alike; `trainjob_controller_api_writes_total` says which resource was written.", prefixed("rest_client_request", "rest_client_rate")},
	{"Leader election", "From client-go; there are none with `--leader-elect=false`.", prefixed("leader_election_")},
	{"The process", "From the Prometheus client library. There are more; these do not depend on the version of Go.",
		func(name string) bool {
			return slices.Contains([]string{
				"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds", "process_open_fds", "go_goroutines",
			}, name)
		}},
}

// values says what the values of labels mean. Those of fixed sets must all be named.
var values = []struct {
	label, text string
	named       []string
}{
	{labelQueue, "`snapshot`, `jobset`, `deadline`, `ttl`, `preflight`: the queue, which is also the label `name` of client-go's `workqueue_*`", valuesOf(Queues())},
	{labelResult, "of syncs: `success`; `conflict` (the cache was a moment behind), `delayed` and `retry` (expected to pass), `permanent` (told in the job's status), " +
		"`terminating` (the namespace goes away), `canceled` (the process stops); `error` and `panic` should not be there. " +
		"Of ends of TrainJobs: `Complete`, `Failed`. Of admission reviews: `allowed`, `refused`; `error` (the API server could not be read), `panic` (a bug), `malformed` (no review)",
		slices.Concat(valuesOf(Results()), valuesOf(Outcomes()), valuesOf(ReviewResults()))},
	{"queued", "`true`: the job was suspended at some time before, so its time in a queue counts as well; `false`", []string{"true", "false"}},
	{"state", "`Pending`, `Suspended`, `Running`, `Complete`, `Failed`; `Unknown`: not looked at yet", nil},
	{"runtime", "the name of a ClusterTrainingRuntime, of the first hundred by name; `(namespaced)`: any TrainingRuntime; `(missing)`: a ClusterTrainingRuntime that does not exist; `(other)`: the rest", nil},
	{"framework", "`torch`, `mpi`, `jax`, `xgboost`, `flux`, `none`; `unknown`: the runtime does not exist. That of the runtime as it is now, not of the job's snapshot", nil},
	{"reason", "of Pending TrainJobs: `status.reason`, see [trainjob.md](trainjob.md). Of refused snapshots: `conflict` (a ConfigMap of that name is in the way), `too_large`, `invalid` (not what was taken), " +
		"`runtime_invalid` (no JobSet can be built from it), `unsupported` (kind of the runtime), `creation_failed` (the API server refuses it)", valuesOf(Refusals())},
	{labelTimer, "`deadline`: unfinished jobs with a deadline that runs; `ttl`: finished jobs with a time to live", valuesOf(Timers())},
	{"resource", "`trainjobs`, `trainjobs/status`, `jobsets`, `jobs`, `configmaps`, `secrets`, `podgroups`, `events`, `leases`, `validatingwebhookconfigurations`, `mutatingwebhookconfigurations`", writtenResources},
	{"verb", "of writes: `create`, `update`, `patch`, `delete`, `deletecollection`; of client-go: the HTTP method", nil},
	{"code", "the HTTP status; of writes `none`: no answer", []string{noAnswer}},
	{labelPath, "the path of a webhook", nil},
}

func valuesOf[T ~string](known []T) []string {
	var all []string
	for _, value := range known {
		all = append(all, string(value))
	}
	return all
}

func prefixed(prefixes ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
}

const footnotes = `
The API keeps times in whole seconds, which is as exact as lateness and delays can be. Time that passed while no controller ran counts as lateness too.
`

func TestThePageOnMetricsIsWhatIsServed(t *testing.T) {
	exercise(serving(t))
	exerciseLibraries(t)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated by make generate-docs from the metrics that are served. -->

What ` + "`/metrics`" + ` serves, in the Prometheus formats. How to have it scraped, alerted on and drawn: [monitoring.md](monitoring.md). A histogram NAME is the three series NAME_bucket, NAME_sum and NAME_count.
`)
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | type | labels | |\n|---|---|---|---|\n", section.heading, section.text)
		for _, family := range families {
			if section.belongs(family.GetName()) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()), labelsOf(family), sentence(family))
			}
		}
	}
	b.WriteString("\n## Labels\n\nA value outside of a fixed set is recorded as `other`; that is a bug.\n\n| label | values |\n|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(&b, "| `%s` | %s |\n", v.label, v.text)
		for _, value := range v.named {
			if !strings.Contains(v.text, "`"+value+"`") {
				t.Errorf("the value %q of label %q is not documented", value, v.label)
			}
		}
	}
	b.WriteString(footnotes)
	path := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("docs/metrics.md is out of date, run make generate-docs (-want +got):\n%s", diff)
	}
}

// labelsOf lists the names of a metric's labels.
func labelsOf(family *dto.MetricFamily) string {
	names := map[string]bool{}
	for _, series := range family.GetMetric() {
		for _, label := range series.GetLabel() {
			names["`"+label.GetName()+"`"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// sentence is the help of a metric without its mark of stability, which says whether it
// may be renamed, and with its full stop.
func sentence(family *dto.MetricFamily) string {
	help := family.GetHelp()
	for _, level := range []metrics.StabilityLevel{metrics.ALPHA, metrics.BETA, metrics.STABLE} {
		help = strings.TrimPrefix(help, "["+string(level)+"] ")
	}
	return strings.TrimSuffix(strings.TrimSpace(strings.ReplaceAll(help, "|", `\|`)), ".") + "."
}
