// Package gang asks a scheduler to place the pods of a training together or not at all.
//
// It knows which pods of a JobSet start together, what the scheduler will count for
// each of them, how coscheduling's and Volcano's PodGroups look and how pods say which
// one they belong to. PodGroups are unstructured values, so that no scheduler's module
// is needed.
//
// It must not know of clusters: what is only known there, such as the overhead that a
// RuntimeClass adds, is not counted. It writes the pods' label or annotation into the
// JobSet it is given and nothing else.
package gang
