package operations

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
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

// catchUp is how long a cache that does not show our own write yet is waited for,
// should the event of that write not come.
const catchUp = time.Second

// pacer remembers the last write of each job. It may forget: then one write comes
// early or fails with a conflict.
type pacer struct {
	mu   sync.Mutex
	last map[cache.ObjectName]written
}

// written is one status write: when, and onto which version of the job.
type written struct {
	at   time.Time
	onto string
}

// wait is how long a change of this kind has to wait; 0 means it may be written now.
func (p *pacer) wait(job *trainer.TrainJob, change trainjob.Change, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[cache.MetaObjectToName(job)]
	if !ok {
		return 0
	}
	if last.onto == job.ResourceVersion {
		return catchUp // this is the job as it was before our write
	}
	if rest := intervals[change] - now.Sub(last.at); rest > 0 && rest <= intervals[change] {
		return rest
	}
	return 0
}

// wrote notes a write that has succeeded.
func (p *pacer) wrote(job *trainer.TrainJob, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[cache.ObjectName]written{}
	}
	p.last[cache.MetaObjectToName(job)] = written{at: now, onto: job.ResourceVersion}
}

// forget drops a job that is gone.
func (p *pacer) forget(key cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}
