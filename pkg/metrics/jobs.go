package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Group is what jobs are counted by.
type Group struct {
	State, Runtime, Framework string
}

// Waiting is how many jobs are Pending for one reason.
type Waiting struct {
	Jobs int
	// Longest is how long the one has waited that has waited for longest.
	Longest time.Duration
}

// Census is a count of the jobs. Whoever takes it sees to it that the values of Group
// and the reasons are few.
type Census struct {
	Jobs    map[Group]int
	Pending map[string]Waiting // by reason
}

// NewJobs returns a collector that calls take at every scrape. A census of nil exports
// nothing: that is for replicas that do not lead, or each job would be counted as often
// as there are replicas.
func NewJobs(take func() *Census) metrics.StableCollector {
	return &jobs{
		take: take,
		byGroup: metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, "trainjobs"),
			"Number of TrainJobs by state, by runtime and by its framework. Only the leader exports it.",
			[]string{"state", "runtime", "framework"}, nil, metrics.ALPHA, ""),
		pending: metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, "trainjobs_pending"),
			"Number of TrainJobs that are Pending, by reason. Only the leader exports it.",
			[]string{"reason"}, nil, metrics.ALPHA, ""),
		longest: metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, "trainjobs_pending_longest_seconds"),
			"How long that TrainJob has been Pending that has been so for longest, by reason. Only the leader exports it.",
			[]string{"reason"}, nil, metrics.ALPHA, ""),
	}
}

type jobs struct {
	metrics.BaseStableCollector
	take                      func() *Census
	byGroup, pending, longest *metrics.Desc
}

// DescribeWithStability names the metrics of this collector.
func (j *jobs) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{j.byGroup, j.pending, j.longest} {
		descriptions <- d
	}
}

// CollectWithStability takes the census.
func (j *jobs) CollectWithStability(series chan<- metrics.Metric) {
	census := j.take()
	if census == nil {
		return
	}
	for g, count := range census.Jobs {
		series <- metrics.NewLazyConstMetric(j.byGroup, metrics.GaugeValue, float64(count), g.State, g.Runtime, g.Framework)
	}
	for reason, waiting := range census.Pending {
		series <- metrics.NewLazyConstMetric(j.pending, metrics.GaugeValue, float64(waiting.Jobs), reason)
		series <- metrics.NewLazyConstMetric(j.longest, metrics.GaugeValue, notNegative(waiting.Longest), reason)
	}
}
