// Package state holds integration tests of what a TrainJob goes through: its states,
// its snapshot, its JobSet, its deadline and its time to live. Etcd, kube-apiserver,
// kube-controller-manager and the controller are the real ones; the JobSet controller
// is not there, and the tests write the status of JobSets in its place, so that each of
// them can bring about exactly the moment it is about.
//
// Tests keep apart by namespace and run in parallel. Those that stop the controller or
// the API server do not, and thereby run before all others.
package state
