// Package snapshot takes the snapshot of a runtime when a TrainJob is first
// reconciled (KEP-2599), so that from then on the job depends on nothing it does not
// own.
//
// It knows where runtimes are found, and when a snapshot may be taken, must be waited
// for, or is refused. It writes the snapshot ConfigMap, by CREATE and never again,
// and the status of jobs that have neither a snapshot nor a JobSet. It does not know
// how a JobSet is built; it only asks the renderer whether one could be, because a
// runtime that cannot be rendered is not worth freezing.
//
// Runtimes of kinds that are listed as opaque are read live and frozen as they are, and
// their jobs left to builders of their own (opaque.go, kinds.go). Until then their status
// is written here, and afterwards by nobody but the builder.
package snapshot
