// Command record runs two replicas of the controller on the local control plane as the Deployment
// runs them (its flags, its ServiceAccount, its webhooks behind one address), under a
// load of TrainJobs that looks like a busy team's day in minutes, and keeps what their
// /metrics say every few seconds. hack/monitoring draws the dashboard from that.
//
// In between it does what an SRE fears: a burst of jobs, the leader killed, a quota that
// refuses every JobSet of a namespace.
package main
