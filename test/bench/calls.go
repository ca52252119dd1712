package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// calls reads a user's calls to the API server out of the audit log.
type calls struct {
	arena *arena
	user  string
	next  cluster.AuditPosition
	all   []cluster.AuditEvent
}

// callsOf begins to count now.
func (a *arena) callsOf(ctx context.Context, user string) (*calls, error) {
	now, err := a.cluster.AuditNow(ctx)
	return &calls{arena: a, user: user, next: now}, err
}

// read takes in what has been called since the last time, and returns that.
func (c *calls) read(ctx context.Context) ([]cluster.AuditEvent, error) {
	fresh, next, err := c.arena.cluster.AuditRead(ctx, c.next, cluster.AuditFilter{User: c.user})
	if err != nil {
		return nil, err
	}
	c.next = next
	c.all = append(c.all, fresh...)
	return fresh, nil
}

// work says whether a call writes something other than events and the leader's lease.
func work(e cluster.AuditEvent) bool { return told(e) && e.Resource != "events" }

// told says whether a call writes something other than the leader's lease.
func told(e cluster.AuditEvent) bool { return e.IsWrite() && e.Resource != "leases" }

// settle waits until nothing has been written for a while, and returns the time of the
// last write.
func (c *calls) settle(ctx context.Context) (time.Time, error) { return c.without(ctx, work) }

// silent waits until not even an event has been written for a while.
func (c *calls) silent(ctx context.Context) error {
	_, err := c.without(ctx, told)
	return err
}

// restless is how long a controller may go on writing after the last thing that happened.
const restless = 5 * time.Minute

// without waits until there has been no call of a kind for a while.
func (c *calls) without(ctx context.Context, kind func(cluster.AuditEvent) bool) (time.Time, error) {
	for begin := time.Now(); ; {
		fresh, err := c.read(ctx)
		if err != nil {
			return time.Time{}, err
		}
		if !slices.ContainsFunc(fresh, kind) {
			break
		}
		if time.Since(begin) > restless {
			return time.Time{}, fmt.Errorf("%s still writes after %v: %v", c.user, restless, harness.Summary(fresh))
		}
		if err := sleep(ctx, c.arena.bench.options.quiet); err != nil {
			return time.Time{}, err
		}
	}
	return c.last(), nil
}

// last is the time of the last write.
func (c *calls) last() time.Time {
	var last time.Time
	for _, e := range c.all {
		if work(e) && e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

// statusWrites is the most that any one TrainJob's status was written, and all together.
func statusWrites(events []cluster.AuditEvent) (most, all int) {
	byJob := map[string]int{}
	for _, e := range events {
		if e.IsWrite() && e.Resource == "trainjobs" && e.Subresource == "status" && e.Code < 300 {
			byJob[e.Namespace+"/"+e.Name]++
			all++
		}
	}
	for _, n := range byJob {
		most = max(most, n)
	}
	return most, all
}

// creates counts what was created but events.
func creates(events []cluster.AuditEvent) (n int) {
	for _, e := range events {
		if e.Verb == "create" && work(e) && e.Code < 300 {
			n++
		}
	}
	return n
}
