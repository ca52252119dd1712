// Package validation says what admission has to say about TrainJobs and runtimes:
// what is wrong, what is right but probably not meant, and what is filled in.
//
// It knows the rules that need more than one object or more than the CRD's schema can
// express. Whether a job can be built from a runtime is decided by package render, whose
// errors are passed on; no rule is written down twice. An update is refused only for a
// fault that it brings: a job that was accepted once can always be suspended, resumed,
// labelled and deleted, whatever has happened to its runtime since.
//
// It must not know of HTTP, clients or clocks. It never writes to what it is given, but
// for the job that DefaultTrainJob fills in.
package validation
