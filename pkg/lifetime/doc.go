// Package lifetime decides whether a moment has come: the deadline of a job, or the
// time to delete it after it finished.
//
// It knows arithmetic on (start, limit, now) and nothing else: not TrainJobs, not
// where the times come from, not who acts on a verdict. It never reads a clock.
// Limits are whole seconds of any size an int64 can hold; sums saturate instead of
// wrapping, so a limit of three hundred billion years is simply never reached.
package lifetime
