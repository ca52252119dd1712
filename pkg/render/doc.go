// Package render turns a TrainJob and the runtime it uses into the JobSet of the job.
//
// It knows the order in which things are laid on top of each other: the runtime's
// template, spec.runtimePatches in list order, spec.trainer and spec.initializer,
// what the framework needs, spec.suspend. It knows what names come out of that, which
// of the fields a JobSet that exists can still take, and how to say precisely which
// field of which object makes a job impossible.
//
// It must not know of clusters, clients, caches, clocks or processes: the same input
// gives the same bytes everywhere, and inputs are shared objects that are never
// written to.
package render
