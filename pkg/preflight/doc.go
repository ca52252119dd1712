// Package preflight makes the checks of a run, in stages, within a time, and turns what
// they find into one report.
//
// It knows when a check runs and how often, and how attempts are counted over restarts. It
// knows nothing of what a check looks at (package checks), nothing of how an outcome is
// judged (package report), and prints nothing.
package preflight
