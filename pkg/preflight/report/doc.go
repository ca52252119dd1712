// Package report is what preflight says about a node before training starts: the
// findings of its checks, the one outcome that they add up to, and the exit code that
// Kubernetes acts on. Exit codes, reasons and the JSON are an API.
//
// It is pure: no clock, no files, no network. It knows nothing of how a check looks, and
// is what the binary and the controller share.
package report
