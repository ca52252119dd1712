// Package runtimesnapshot is the codec of runtime snapshots: how a runtime is frozen
// into a ConfigMap when a TrainJob is first reconciled, and how it is read back.
//
// The format is that of KEP-2599: ConfigMap <trainjob>-runtime-snapshot, key
// `runtime`, a YAML document with apiVersion, kind, metadata (name, namespace,
// labels, annotations) and spec. Runtimes of kinds that nobody here understands are
// frozen with everything but their status, and are not read back.
//
// It knows names, bytes, digests and the defaults that a runtime's CRD would fill in.
// It does not know clients or caches, nor when a snapshot is taken or what is built
// from it.
package runtimesnapshot
