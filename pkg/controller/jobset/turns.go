package jobset

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/pkg/queue"
)

// deletionsAtOnce is how many JobSets of ended jobs are deleted at the same time. When a
// thousand deadlines come in one second, the statuses of those jobs, and new jobs, are
// more urgent; and two at a time are some hundred a second all the same.
const deletionsAtOnce = 2

// turnLost is when a job comes back by itself that waits for its turn: the one before it
// may have found that there was nothing to delete.
const turnLost = 5 * time.Second

// turns lets so many at a time do something, and the others after them in the order in
// which they came. The zero value lets deletionsAtOnce.
type turns struct {
	mu      sync.Mutex
	busy    int
	waiting []cache.ObjectName
	known   map[cache.ObjectName]bool // those that wait
}

// take says whether it is the key's turn. If not, the key waits.
func (t *turns) take(key cache.ObjectName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy < deletionsAtOnce {
		t.busy++
		return true
	}
	if t.known == nil {
		t.known = map[cache.ObjectName]bool{}
	}
	if !t.known[key] {
		t.known[key] = true
		t.waiting = append(t.waiting, key)
	}
	return false
}

// done ends a turn. The key it returns, if any, is next and is to take its turn.
func (t *turns) done() (cache.ObjectName, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if len(t.waiting) == 0 {
		return cache.ObjectName{}, false
	}
	next := t.waiting[0]
	t.waiting = t.waiting[1:]
	delete(t.known, next)
	return next, true
}

// deleteEnded deletes the JobSet of a job that has ended, now or in its turn.
func (c *Controller) deleteEnded(ctx context.Context, key cache.ObjectName, js *jobset.JobSet) (queue.Result, error) {
	if !c.deletions.take(key) {
		return queue.Result{After: turnLost}, nil
	}
	defer func() {
		if next, ok := c.deletions.done(); ok {
			c.queue.Add(next)
		}
	}()
	return queue.Result{}, c.writer.deleteUnended(ctx, js)
}
