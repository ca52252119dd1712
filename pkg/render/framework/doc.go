// Package framework knows what each machine learning framework needs in the pods
// of a TrainJob: variables, ports and names by which the nodes find each other.
//
// A framework is a pure function from the merged template (runtime, patches and
// spec.trainer) to values; package render puts them into the JobSet. One file holds
// one framework, and one fixed, ordered table (table.go) lists them all.
//
// It must not know where a runtime came from, what a cluster looks like, or how its
// values are put into containers, and it never writes to its input.
package framework
