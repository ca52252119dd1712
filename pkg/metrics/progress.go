package metrics

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
)

// Outcome is how a job ended.
type Outcome string

// The ways a job can end.
const (
	OutcomeComplete Outcome = "Complete"
	OutcomeFailed   Outcome = "Failed"
)

// Outcomes lists every outcome.
func Outcomes() []Outcome { return []Outcome{OutcomeComplete, OutcomeFailed} }

// progress is how long jobs take from one moment of their life to another. The times
// are those the API server keeps, which are whole seconds.
type progress struct {
	toJobSet, toRunning, toFinish *metrics.HistogramVec
}

func newProgress() progress {
	return progress{
		toJobSet: newProgressHistogram("trainjob_jobset_delay_seconds",
			"Time from the creation of a TrainJob to its first unsuspended JobSet. queued: whether the job was suspended at some time before.", "queued"),
		toRunning: newProgressHistogram("trainjob_running_delay_seconds",
			"Time from the creation of a TrainJob to the first time it was Running. queued: whether the job was suspended at some time before.", "queued"),
		toFinish: newProgressHistogram("trainjob_finish_delay_seconds",
			"Time from the creation of a TrainJob to its end. result: Complete or Failed.", labelResult),
	}
}

func newProgressHistogram(name, help, label string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		// From the second that the stamps are good for to weeks of training.
		Buckets:        []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400},
		StabilityLevel: metrics.ALPHA,
	}, []string{label})
}

func (p progress) all() []metrics.Registerable {
	return []metrics.Registerable{p.toJobSet, p.toRunning, p.toFinish}
}

// JobStarted records how long after its creation a job had its first unsuspended JobSet.
func (m *Metrics) JobStarted(queued bool, after time.Duration) {
	m.progress.toJobSet.WithLabelValues(strconv.FormatBool(queued)).Observe(notNegative(after))
}

// JobRunning records how long after its creation a job was Running for the first time.
func (m *Metrics) JobRunning(queued bool, after time.Duration) {
	m.progress.toRunning.WithLabelValues(strconv.FormatBool(queued)).Observe(notNegative(after))
}

// JobFinished records how long after its creation a job ended.
func (m *Metrics) JobFinished(outcome Outcome, after time.Duration) {
	m.progress.toFinish.WithLabelValues(oneOf(Outcomes(), outcome)).Observe(notNegative(after))
}
