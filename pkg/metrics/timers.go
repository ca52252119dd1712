package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Timer names one of the times that end something in the life of a TrainJob.
type Timer string

// The timers of this program.
const (
	TimerDeadline Timer = "deadline"
	TimerTTL      Timer = "ttl"
)

// Timers lists every timer.
func Timers() []Timer {
	return []Timer{TimerDeadline, TimerTTL}
}

func newTimers() *counted {
	return newCounted("timer_waiting_jobs",
		"Number of TrainJobs that a timer runs for, by timer. 0 on a replica that is not the leader.",
		labelTimer, strs(Timers()))
}

// newOverdue measures what is late while it still is: lateness is known only afterwards.
func newOverdue() *counted {
	return newCounted("timer_overdue_longest_seconds",
		"How long ago the timer was due that has been due for longest without effect, by timer. 0 if none is, and on a replica that is not the leader.",
		labelTimer, strs(Timers()))
}

// newLateness makes a histogram of how late a timer's effect came. A healthy
// controller stays under two seconds, and a thousand timers that are due in the same
// second under ten, which is where the buckets are narrow; the long end shows time
// spent without a controller.
func newLateness(name, help string) *metrics.Histogram {
	return metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		Buckets: []float64{
			0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400,
		},
		StabilityLevel: metrics.ALPHA,
	})
}

// CountTimers sets the function that counts the jobs each timer runs for.
func (m *Metrics) CountTimers(count func() map[Timer]int) {
	m.timers.by(func() map[string]float64 {
		counts := map[string]float64{}
		for timer, n := range count() {
			counts[string(timer)] = float64(n)
		}
		return counts
	})
}

// MeasureOverdue sets the function that says how long the timer of each kind that is
// overdue for longest has been so.
func (m *Metrics) MeasureOverdue(longest func() map[Timer]time.Duration) {
	m.overdue.by(func() map[string]float64 {
		seconds := map[string]float64{}
		for timer, late := range longest() {
			seconds[string(timer)] = notNegative(late)
		}
		return seconds
	})
}

// DeadlineEnforced records how long after its deadline a TrainJob failed.
func (m *Metrics) DeadlineEnforced(late time.Duration) { m.deadlineLateness.Observe(notNegative(late)) }

// TTLEnforced records how long after its time to live a TrainJob was deleted.
func (m *Metrics) TTLEnforced(late time.Duration) { m.ttlLateness.Observe(notNegative(late)) }

// notNegative keeps two clocks that disagree (ours and the API server's, whose
// times are whole seconds) from lowering a histogram's sum.
func notNegative(d time.Duration) float64 {
	return max(d, 0).Seconds()
}
