// Command bench measures the controller on etcd and an API server alone: how fast a
// burst of TrainJobs gets its JobSets, and what an idle controller costs.
//
// Every figure is put beside the same work done by a plain client in the same run,
// because machines differ and so does one machine from minute to minute. It checks
// what it measures: a burst counts only if every JobSet exists, once and right.
package main
