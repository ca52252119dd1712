// Package app is the command line of preflight: it reads settings, lets package preflight
// make the checks, and hands the report to standard output, the log, a file and the
// container's termination message. Whatever happens, it ends with one of the documented
// exit codes.
package app
