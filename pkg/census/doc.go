// Package census counts the TrainJobs in a cache, for the metrics that say how many
// there are: by state, by runtime, by framework, and by what keeps them waiting.
//
// It knows TrainJobs and runtimes as the caches hold them. It copies none of them,
// writes nothing, and asks the API server for nothing: it runs at every scrape.
//
// Names of namespaced runtimes are not told apart, nor are cluster-wide ones beyond the
// first hundred, so that users cannot make any number of series.
package census
