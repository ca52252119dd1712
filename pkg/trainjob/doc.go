// Package trainjob is the state machine of a TrainJob: given the job, what was
// observed of its children, and the time, it says what the status must be next.
//
// Every status write of every controller comes out of Next, so the promises about
// states hold whoever writes: state, reason and message belong together, the only
// conditions of ours are Suspended, Complete and Failed, at most one of them and True, a
// terminal state is never left, and what others wrote (their conditions, trainerStatus)
// is carried over untouched.
//
// The state of a job whose runtime has a builder of its own is that builder's once the
// job is handed over; Next then adds nothing but a failure (external.go).
//
// It knows the meaning of a TrainJob's fields. It does not know clients, caches,
// clocks, or how a JobSet is built; it reads nothing but its arguments and writes to
// none of them.
package trainjob
