// Package policy prints what Kubernetes must be told so that the exit codes of preflight
// lead to their actions: failure policies of Job and JobSet, and the restart rule of the
// container. The shipped runtimes hold the same; a test compares them.
//
// It knows exit codes and the wording of the Job controller's messages, no checks.
package policy
