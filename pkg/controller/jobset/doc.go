// Package jobset turns a TrainJob with a snapshot into a JobSet and follows it: it
// creates the JobSet when the job first may run, suspends and resumes it, brings it
// up to date with spec.runtimePatches while it is suspended, mirrors its state into
// the TrainJob's status, and deletes it after a deadline. What the pods need beside it,
// files, keys and the PodGroup of a gang scheduler, is made before it is created or
// resumed (helpers.go), and the PodGroup deleted when the job has finished.
//
// It knows the snapshot and the JobSet, never the runtime. How a JobSet is built is
// decided in pkg/render, what the status says in pkg/trainjob, when a job is overdue
// in pkg/lifetime. Jobs whose runtime has a builder of its own are none of its business,
// whether or not there is a JobSet of their name. A JobSet that exists and is not
// suspended is never changed, but for spec.suspend; a JobSet of somebody else is never
// touched.
package jobset
