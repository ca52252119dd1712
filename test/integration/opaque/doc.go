// Package opaque tests jobs whose runtime is of a kind that the controller does not
// understand: what it freezes, how it waits, and that it leaves the rest to a builder. For
// SlurmRuntime that is the program in test/slurm, which runs as a process of its own; for
// the other kinds nobody builds anything. Pods are played by the tests.
package opaque
