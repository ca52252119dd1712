// Package harness is what integration tests and the demo have in common: it builds
// the controller as users run it, starts it as a process against a local control
// plane, and waits for what a test expects.
//
// It knows processes, clients and waiting. It knows nothing about what a TrainJob
// should do: that is for the tests to say. The controller is a process and not a
// function call so that a test can kill it in the middle of anything, and so that
// flags, signals and exit codes are tested with everything else.
package harness
