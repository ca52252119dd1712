package queue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// onward is a clock that goes on by what the wall clock says or by what has passed for
// the process, whichever is more. What is due at a time of day is due after a suspended
// machine wakes up or its clock is put forward, although timers have stood still; and
// what waits for a second does not wait for an hour when the clock is put back by one.
//
// Timers and tickers are the clock's own. The delaying queue looks at the time at least
// every ten seconds.
type onward struct {
	clock.WithTicker

	mu   sync.Mutex
	seen time.Time // by the clock
	now  time.Time
}

func newOnward(c clock.WithTicker) *onward {
	now := c.Now()
	return &onward{WithTicker: c, seen: now, now: now.Round(0)}
}

// Now is a time to be compared with others of this clock only.
func (o *onward) Now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.WithTicker.Now()
	wall, process := now.Round(0).Sub(o.seen.Round(0)), now.Sub(o.seen)
	o.now, o.seen = o.now.Add(max(wall, process, 0)), now
	return o.now
}

// Since is the time that has passed by this clock.
func (o *onward) Since(t time.Time) time.Duration { return o.Now().Sub(t) }
