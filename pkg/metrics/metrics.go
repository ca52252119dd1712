package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_* of the lease
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // rest_client_* of every client
	_ "k8s.io/component-base/metrics/prometheus/workqueue"               // workqueue_* of every named queue
	"k8s.io/component-base/version"
)

// Every metric of ours is called trainjob_controller_<name>.
const (
	namespace = "trainjob"
	subsystem = "controller"
)

// Metrics records what the controllers do. Until Register is called every
// method is a no-op, so a test that does not look at metrics needs no registry.
// All methods are safe for concurrent use.
type Metrics struct {
	syncDuration     *metrics.HistogramVec
	syncPanics       *metrics.CounterVec
	snapshotsTaken   *metrics.Counter
	snapshotsRefused *metrics.CounterVec
	jobSetsCreated   *metrics.Counter
	deadlineLateness *metrics.Histogram
	ttlLateness      *metrics.Histogram
	timers           *counted
	overdue          *counted
	buildInfo        *metrics.GaugeVec
	leader           *metrics.Gauge
	apiWrites        *metrics.CounterVec
	progress         progress
}

// New makes the metrics without registering them.
func New() *Metrics {
	return &Metrics{
		syncDuration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "sync_duration_seconds",
			Help: "How long one sync of a key took, by queue and by how it ended.",
			// 1 ms (nothing to do, all from the cache) to 65 s (API server barely answering).
			Buckets:        metrics.ExponentialBuckets(0.001, 2, 17),
			StabilityLevel: metrics.ALPHA,
		}, []string{labelQueue, labelResult}),
		syncPanics: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "sync_panics_total",
			Help:           "Number of syncs that panicked. The key is retried; any increase is a bug.",
			StabilityLevel: metrics.ALPHA,
		}, []string{labelQueue}),
		snapshotsTaken: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "snapshots_taken_total",
			Help:           "Number of runtime snapshots written.",
			StabilityLevel: metrics.ALPHA,
		}),
		snapshotsRefused: newSnapshotsRefused(),
		jobSetsCreated: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "jobsets_created_total",
			Help:           "Number of JobSets created.",
			StabilityLevel: metrics.ALPHA,
		}),
		deadlineLateness: newLateness("deadline_lateness_seconds",
			"How long after its deadline a TrainJob was marked as failed."),
		ttlLateness: newLateness("ttl_lateness_seconds",
			"How long after its time to live a finished TrainJob was deleted."),
		timers:  newTimers(),
		overdue: newOverdue(),
		buildInfo: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "build_info",
			Help:           "A constant 1, labelled with what this binary was built from. build_date is when that was committed, empty where the build was not told.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"version", "git_commit", "build_date", "go_version", "platform"}),
		leader: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "leader",
			Help:           "1 while the workers of this replica run: it leads, or needs no leader election. 0 while it stands by.",
			StabilityLevel: metrics.ALPHA,
		}),
		apiWrites: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "api_writes_total",
			Help:           "Number of write requests to the API server, by verb, resource and status code; none is no answer.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"verb", "resource", "code"}),
		progress: newProgress(),
	}
}

// Register adds every metric to a registry, given by its methods Register and
// CustomRegister, and reports all that were refused. The one that Handler serves is
// that of k8s.io/component-base/metrics/legacyregistry.
func (m *Metrics) Register(register func(metrics.Registerable) error, custom func(metrics.StableCollector) error) error {
	var errs []error
	for _, metric := range append(m.progress.all(),
		m.syncDuration, m.syncPanics, m.snapshotsTaken, m.snapshotsRefused, m.jobSetsCreated,
		m.deadlineLateness, m.ttlLateness, m.buildInfo, m.leader, m.apiWrites,
	) {
		if err := register(metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", metric.FQName(), err))
		}
	}
	for _, metric := range []*counted{m.timers, m.overdue} {
		if err := custom(metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", metric.desc, err))
		}
	}
	for _, queue := range Queues() {
		m.syncPanics.WithLabelValues(string(queue)) // the first panic is an increase, and not a series that appears
	}
	for _, reason := range Refusals() {
		m.snapshotsRefused.WithLabelValues(string(reason)) // likewise
	}
	info := version.Get()
	m.buildInfo.WithLabelValues(info.GitVersion, info.GitCommit, buildDate(info.BuildDate), info.GoVersion, info.Platform).Set(1)
	return errors.Join(errs...)
}

// buildDate is the date that the linker was given. The library has the beginning of time
// for one that was not.
func buildDate(given string) string {
	if given == "1970-01-01T00:00:00Z" {
		return ""
	}
	return given
}

// Handler serves the process-wide registry in the Prometheus formats.
func Handler() http.Handler {
	return legacyregistry.Handler()
}

// SyncDone records one sync of a key.
func (m *Metrics) SyncDone(queue Queue, result Result, took time.Duration) {
	m.syncDuration.WithLabelValues(oneOf(Queues(), queue), oneOf(Results(), result)).Observe(took.Seconds())
}

// SyncPanicked records one sync that ended in a panic.
func (m *Metrics) SyncPanicked(queue Queue) {
	m.syncPanics.WithLabelValues(oneOf(Queues(), queue)).Inc()
}

// JobSetCreated records one JobSet created.
func (m *Metrics) JobSetCreated() { m.jobSetsCreated.Inc() }

// Leading records whether the workers of this replica run.
func (m *Metrics) Leading(leads bool) {
	value := 0.0
	if leads {
		value = 1
	}
	m.leader.Set(value)
}
