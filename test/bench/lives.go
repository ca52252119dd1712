package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
)

// lives has the plain clients follow what they have built: they write a TrainJob's status
// after each change of its JobSet, and delete it some time after its end.
type lives struct {
	plain *plain
	ttl   time.Duration
	queue workqueue.TypedDelayingInterface[cache.ObjectName]

	mu   sync.Mutex
	jobs map[cache.ObjectName]*trainer.TrainJob // as they were last written
}

// follow makes it so, before anything is built.
func (p *plain) follow(ctx context.Context, ttl time.Duration) error {
	l := &lives{
		plain: p, ttl: ttl, jobs: map[cache.ObjectName]*trainer.TrainJob{},
		queue: workqueue.NewTypedDelayingQueue[cache.ObjectName](),
	}
	_, err := p.jobSets.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		if js, ok := object.(*jobset.JobSet); ok {
			l.queue.Add(cache.MetaObjectToName(js))
		}
	}})
	if err != nil {
		return err
	}
	p.life = l
	p.running.Go(func() { l.run(ctx) })
	return nil
}

// built takes in a job that has all it needs.
func (l *lives) built(job *trainer.TrainJob) {
	key := cache.MetaObjectToName(job)
	l.note(key, job)
	l.queue.Add(key) // its JobSet may have changed in the meantime
}

func (l *lives) note(key cache.ObjectName, job *trainer.TrainJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[key] = job
}

// run follows until ctx ends, with as many clients as there are.
func (l *lives) run(ctx context.Context) {
	var busy sync.WaitGroup
	for range l.plain.arena.bench.options.clients {
		busy.Go(func() {
			for {
				key, shutdown := l.queue.Get()
				if shutdown {
					return
				}
				l.plain.failed(ctx, l.follow(ctx, key))
				l.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	busy.Wait()
}

// follow writes what is next for one job.
func (l *lives) follow(ctx context.Context, key cache.ObjectName) error {
	l.mu.Lock()
	job := l.jobs[key]
	l.mu.Unlock()
	object, exists, err := l.plain.jobSets.GetStore().GetByKey(key.String())
	if err != nil {
		return err
	}
	if job == nil || !exists {
		return nil
	}
	if end, finished := trainjob.FinishTime(job); finished {
		if left := l.ttl - time.Since(end); left > 0 {
			l.queue.AddAfter(key, left)
			return nil
		}
		l.note(key, nil)
		return l.plain.remove(ctx, job)
	}
	js, ok := object.(*jobset.JobSet)
	if !ok {
		return fmt.Errorf("JobSet %s is a %T", key, object)
	}
	job, err = l.plain.status(ctx, job, trainjob.Observed{JobSet: js})
	if err != nil {
		return err
	}
	l.note(key, job)
	if trainjob.Finished(job) {
		l.queue.Add(key) // to be deleted in time
	}
	return nil
}
