package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
)

// registered are metrics in a registry of their own.
func registered(t *testing.T) (*Metrics, metrics.KubeRegistry) {
	t.Helper()
	m, registry := New(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register, registry.CustomRegister); err != nil {
		t.Fatal(err)
	}
	return m, registry
}

// byLabel are the values of a gauge by its one label.
func byLabel(family *dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for _, series := range family.GetMetric() {
		values[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
	}
	return values
}

func TestJobsThatWaitForATimerAreCountedAtEveryScrape(t *testing.T) {
	m, registry := registered(t)
	counts := map[Timer]int(nil)
	scrape := func() map[string]float64 {
		return byLabel(gather(t, registry)["trainjob_controller_timer_waiting_jobs"])
	}
	if diff := cmp.Diff(map[string]float64{"deadline": 0, "ttl": 0}, scrape()); diff != "" {
		t.Errorf("before anybody counts (-want +got):\n%s", diff)
	}
	m.CountTimers(func() map[Timer]int { return counts })
	for _, step := range []struct {
		name   string
		counts map[Timer]int
		want   map[string]float64
	}{
		{"nothing counted", nil, map[string]float64{"deadline": 0, "ttl": 0}},
		{"three and one", map[Timer]int{TimerDeadline: 3, TimerTTL: 1}, map[string]float64{"deadline": 3, "ttl": 1}},
		{"one is gone", map[Timer]int{TimerDeadline: 2, TimerTTL: 1}, map[string]float64{"deadline": 2, "ttl": 1}},
		{"one timer is not mentioned", map[Timer]int{TimerTTL: 4}, map[string]float64{"deadline": 0, "ttl": 4}},
		{"a timer nobody declared", map[Timer]int{"": 7, "alarm": 9}, map[string]float64{"deadline": 0, "ttl": 0}},
	} {
		counts = step.counts
		if diff := cmp.Diff(step.want, scrape()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestTheLongestOverdueTimerIsMeasuredAtEveryScrape(t *testing.T) {
	m, registry := registered(t)
	longest := map[Timer]time.Duration(nil)
	scrape := func() map[string]float64 {
		return byLabel(gather(t, registry)["trainjob_controller_timer_overdue_longest_seconds"])
	}
	if diff := cmp.Diff(map[string]float64{"deadline": 0, "ttl": 0}, scrape()); diff != "" {
		t.Errorf("before anybody measures (-want +got):\n%s", diff)
	}
	m.MeasureOverdue(func() map[Timer]time.Duration { return longest })
	for _, step := range []struct {
		name    string
		longest map[Timer]time.Duration
		want    map[string]float64
	}{
		{"one is overdue", map[Timer]time.Duration{TimerDeadline: 1500 * time.Millisecond}, map[string]float64{"deadline": 1.5, "ttl": 0}},
		{"clocks disagree", map[Timer]time.Duration{TimerTTL: -time.Second}, map[string]float64{"deadline": 0, "ttl": 0}},
		{"none is", nil, map[string]float64{"deadline": 0, "ttl": 0}},
	} {
		longest = step.longest
		if diff := cmp.Diff(step.want, scrape()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// The p99 that is promised lies in seconds, and so must the buckets.
func TestLatenessIsMeasuredFinelyWhereItMatters(t *testing.T) {
	m, registry := registered(t)
	m.DeadlineEnforced(0)
	m.TTLEnforced(0)
	for _, name := range []string{"trainjob_controller_deadline_lateness_seconds", "trainjob_controller_ttl_lateness_seconds"} {
		var bounds []float64
		for _, bucket := range gather(t, registry)[name].GetMetric()[0].GetHistogram().GetBucket() {
			bounds = append(bounds, bucket.GetUpperBound())
		}
		for _, span := range []struct {
			from, to time.Duration
			least    int
		}{{0, time.Second, 5}, {time.Second, 10 * time.Second, 5}, {10 * time.Second, 10 * time.Minute, 5}, {10 * time.Minute, 25 * time.Hour, 3}} {
			n := 0
			for _, bound := range bounds {
				if bound > span.from.Seconds() && bound <= span.to.Seconds() {
					n++
				}
			}
			if n < span.least {
				t.Errorf("%s has %d buckets up from %v to %v, want %d", name, n, span.from, span.to, span.least)
			}
		}
	}
}
