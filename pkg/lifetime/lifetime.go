package lifetime

import (
	"math"
	"time"
)

// MaxWait bounds the wait a verdict asks for. A timer that is due later is looked
// at again after MaxWait, which keeps delays far from the limits of time.Duration
// and repairs a wall clock that has jumped.
const MaxWait = 24 * time.Hour

// Kind is what a verdict says.
type Kind int

const (
	// Never: there is no limit.
	Never Kind = iota
	// Wait: the moment is still to come.
	Wait
	// Expired: the moment is now or has passed.
	Expired
)

// Verdict is the answer for one limit at one moment.
type Verdict struct {
	Kind Kind
	// Wait is how long to wait before asking again: more than 0 and at most MaxWait.
	// Set only for Kind Wait.
	Wait time.Duration
	// Late is how long ago the moment was. Set only for Kind Expired.
	Late time.Duration
}

// Deadline judges a job created at `created` that may be active for `seconds`.
func Deadline(created time.Time, seconds *int64, now time.Time) Verdict {
	if seconds == nil {
		return Verdict{Kind: Never}
	}
	return after(created, *seconds, now)
}

// TTL judges a job that finished at `finished` and is to be kept for `seconds`. A
// finish time in the future, written by a faster clock, waits.
func TTL(finished time.Time, seconds *int32, now time.Time) Verdict {
	if seconds == nil {
		return Verdict{Kind: Never}
	}
	return after(finished, int64(*seconds), now)
}

// after judges the moment `seconds` after `start`.
func after(start time.Time, seconds int64, now time.Time) Verdict {
	elapsed := now.Sub(start) // saturates
	limit := duration(seconds)
	if elapsed >= limit {
		return Verdict{Kind: Expired, Late: elapsed - max(limit, 0)}
	}
	wait := MaxWait
	// limit - elapsed overflows only for an elapsed time below zero, and then the
	// difference is far beyond MaxWait unless elapsed is small.
	if elapsed > limit-MaxWait {
		wait = limit - elapsed
	}
	return Verdict{Kind: Wait, Wait: wait}
}

// duration converts seconds, saturating at the ends of time.Duration.
func duration(seconds int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	switch {
	case seconds > most:
		return math.MaxInt64
	case seconds < 0:
		return 0 // refused by the API; if it comes all the same, it is due at once
	}
	return time.Duration(seconds) * time.Second
}
