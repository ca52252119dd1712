package metrics

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"
)

// counted is a gauge with one label whose series are counted anew at every scrape. What
// can be counted, or measured, out of a cache at any time need not be kept up to date by every event,
// and cannot drift away from the truth.
type counted struct {
	metrics.BaseStableCollector

	desc *metrics.Desc
	// values of the label. Each has a series, with 0 if nothing is counted.
	values []string
	// count is nil until somebody counts.
	count atomic.Pointer[func() map[string]float64]
}

func newCounted(name, help, label string, values []string) *counted {
	fqName := namespace + "_" + subsystem + "_" + name
	return &counted{desc: metrics.NewDesc(fqName, help, []string{label}, nil, metrics.ALPHA, ""), values: values}
}

// DescribeWithStability is part of metrics.StableCollector.
func (c *counted) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- c.desc }

// CollectWithStability is part of metrics.StableCollector. What was counted under a
// value that nobody declared is left out.
func (c *counted) CollectWithStability(ch chan<- metrics.Metric) {
	var counts map[string]float64
	if count := c.count.Load(); count != nil {
		counts = (*count)()
	}
	for _, value := range c.values {
		ch <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, counts[value], value)
	}
}

// by sets the function that counts. It is called at every scrape, from any goroutine.
func (c *counted) by(count func() map[string]float64) { c.count.Store(&count) }
