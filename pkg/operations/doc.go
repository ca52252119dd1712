// Package operations holds the API calls that more than one controller makes: the
// write of a TrainJob's status with the events that speak of it, and deletions with
// preconditions.
//
// It knows how to write safely (resourceVersion, UID, propagation) and what to tell
// the user after a write. It does not decide: what the status must be comes out of
// pkg/trainjob, whether something is deleted out of a controller.
package operations
