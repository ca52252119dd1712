package queue

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/tools/cache"
)

// begin notes that a worker has started on a key, and when.
func (q *Queue) begin(key cache.ObjectName) time.Time {
	now := q.config.Clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy[key] = now
	return now
}

func (q *Queue) end(key cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, key)
}

// Healthy returns an error that names the key a worker has been on for longest,
// if that is longer than Config.StuckAfter. A queue that is not running has no
// worker that could be stuck and is healthy.
func (q *Queue) Healthy(now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var (
		stuck   cache.ObjectName
		longest time.Duration
	)
	for key, since := range q.busy {
		if took := now.Sub(since); took > longest {
			stuck, longest = key, took
		}
	}
	if longest <= q.config.StuckAfter {
		return nil
	}
	return fmt.Errorf("queue %s: a worker has been on %s for %s", q.config.Name, stuck, longest.Round(time.Second))
}

// Check is Healthy at the queue's own time. Together with Name it makes the
// queue a health checker in the sense of k8s.io/apiserver/pkg/server/healthz.
func (q *Queue) Check(*http.Request) error {
	return q.Healthy(q.config.Clock.Now())
}
