package metrics

import "k8s.io/component-base/metrics"

// Refusal says why a TrainJob could not have, or use, its snapshot.
type Refusal string

// The refusals.
const (
	RefusalConflict       Refusal = "conflict"        // an object of that name is in the way
	RefusalTooLarge       Refusal = "too_large"       // it does not fit into a ConfigMap
	RefusalInvalid        Refusal = "invalid"         // it is not what was taken, or no runtime
	RefusalRuntimeInvalid Refusal = "runtime_invalid" // no JobSet can be built from the runtime
	RefusalUnsupported    Refusal = "unsupported"     // a kind of runtime nobody understands
	RefusalCreation       Refusal = "creation_failed" // the API server did not take it
)

// Refusals lists every refusal.
func Refusals() []Refusal {
	return []Refusal{
		RefusalConflict, RefusalTooLarge, RefusalInvalid, RefusalRuntimeInvalid, RefusalUnsupported, RefusalCreation,
	}
}

func newSnapshotsRefused() *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "snapshots_refused_total",
		Help:           "Number of times that a TrainJob could not have, or use, its snapshot, by reason. A job that stays so is counted once.",
		StabilityLevel: metrics.ALPHA,
	}, []string{labelReason})
}

// SnapshotTaken records one snapshot written.
func (m *Metrics) SnapshotTaken() { m.snapshotsTaken.Inc() }

// SnapshotRefused records that a TrainJob could not have, or use, its snapshot.
func (m *Metrics) SnapshotRefused(reason Refusal) {
	m.snapshotsRefused.WithLabelValues(oneOf(Refusals(), reason)).Inc()
}
