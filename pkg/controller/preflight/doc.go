// Package preflight lifts what the checks of a job's pods say to the job: the worst report
// into status.preflight, an event for each rank that failed, before a restart deletes its
// pod, and, where that is switched on, a mark on the node at fault.
//
// It watches pods by their label alone, and none before there is a JobSet with that label.
// It writes status.preflight and the label of quarantined nodes, and nothing else; that a
// job has Failed is written by the jobset controller, which finds the reason in the status.
// What it reads was written by the pods of users: all of it is bounded, and where a pod
// runs is taken from the pod, never from what it says.
package preflight
