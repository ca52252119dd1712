package operations

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/trainjob/controller/pkg/trainjob"
)

// The least time between a status write of a job and a next one that brings little
// news.
var intervals = map[trainjob.Change]time.Duration{
	trainjob.Details: time.Second,
	// Our own write comes back as an event, which makes the controller try again at
	// once; an API error that reads differently each time must not become a loop.
	trainjob.Rewording: 30 * time.Second,
}

// pacer remembers when each job was last written. It may forget: then one write
// comes early.
type pacer struct {
	mu   sync.Mutex
	last map[cache.ObjectName]time.Time
}

// wait is how long the job has to wait with a change of this kind; 0 means now, and
// that it is noted as written.
func (p *pacer) wait(key cache.ObjectName, change trainjob.Change, now time.Time) time.Duration {
	interval := intervals[change] // none for a change that is written at once
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[key]; ok {
		if rest := interval - now.Sub(last); rest > 0 && rest <= interval {
			return rest
		}
	}
	if p.last == nil {
		p.last = map[cache.ObjectName]time.Time{}
	}
	p.last[key] = now
	return 0
}

// forget drops a job that is gone.
func (p *pacer) forget(key cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}
