package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/informer"
)

// observer notes when the benchmark's own watches showed what. It is the same for
// everyone who is measured.
type observer struct {
	jobs, jobSets cache.SharedIndexInformer

	mu    sync.Mutex
	notes map[cache.ObjectName]*note
	wrong []error
}

// note is what was seen of one TrainJob; a zero time is for what was not.
type note struct {
	created time.Time
	jobSet  time.Time
	uid     types.UID // of the JobSet
	active  time.Time // a Job counted as active in status.jobsStatus
	running time.Time // a Job counted as ready there
	ended   time.Time // Complete or Failed is True
	reason  string    // of that condition
	gone    time.Time
}

// newObserver makes one that sees nothing before the arena watches.
func newObserver(a *arena) *observer {
	o := &observer{notes: map[cache.ObjectName]*note{}}
	o.jobs = trainerinformers.NewSharedInformerFactory(a.trainer, 0).Trainer().V1alpha1().TrainJobs().Informer()
	o.jobSets = jobsetinformers.NewSharedInformerFactory(a.jobSet, 0).Jobset().V1alpha2().JobSets().Informer()
	return o
}

// watch runs the observer and the player until ctx ends; then the channel is closed.
func (a *arena) watch(ctx context.Context) <-chan struct{} {
	// Set before the start, they cannot fail.
	_ = a.seen.jobs.SetTransform(informer.Transform(informer.Strip))
	_ = a.seen.jobSets.SetTransform(informer.Transform(informer.Strip, func(object metav1.Object) {
		if js, ok := object.(*jobset.JobSet); ok {
			js.Spec = jobset.JobSetSpec{}
		}
	}))
	_, _ = a.seen.jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.seen.job,
		UpdateFunc: func(_, object any) { a.seen.job(object) },
		DeleteFunc: func(object any) { a.seen.jobGone(object); a.play.jobGone(object) },
	})
	_, _ = a.seen.jobSets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.seen.jobSet(object); a.play.jobSet(object) },
		UpdateFunc: func(_, object any) { a.seen.jobSet(object); a.play.jobSet(object) },
	})
	var running sync.WaitGroup
	running.Go(func() { a.seen.jobs.RunWithContext(ctx) })
	running.Go(func() { a.seen.jobSets.RunWithContext(ctx) })
	running.Go(func() { a.play.run(ctx) })
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	return done
}

func (o *observer) synced(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), o.jobs.HasSynced, o.jobSets.HasSynced) {
		return errors.New("the benchmark's own watches do not start")
	}
	return nil
}

// of returns the note of a key; the caller holds the lock.
func (o *observer) of(key cache.ObjectName) *note {
	n := o.notes[key]
	if n == nil {
		n = &note{}
		o.notes[key] = n
	}
	return n
}

func (o *observer) creating(job *trainer.TrainJob) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(cache.MetaObjectToName(job)).created = time.Now()
}

func first(at *time.Time, yes bool, now time.Time) {
	if yes && at.IsZero() {
		*at = now
	}
}

func (o *observer) job(object any) {
	job, ok := object.(*trainer.TrainJob)
	if !ok {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.of(cache.MetaObjectToName(job))
	for _, s := range job.Status.JobsStatus {
		first(&n.active, s.Active > 0, now)
		first(&n.running, s.Ready > 0, now)
	}
	for _, end := range []trainer.TrainJobState{trainer.TrainJobComplete, trainer.TrainJobFailed} {
		c := meta.FindStatusCondition(job.Status.Conditions, string(end))
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		if n.reason != "" && n.reason != c.Reason {
			o.wrong = append(o.wrong, fmt.Errorf("TrainJob %s/%s ended as %s and then as %s", job.Namespace, job.Name, n.reason, c.Reason))
		}
		first(&n.ended, true, now)
		n.reason = c.Reason
	}
}

func (o *observer) jobGone(object any) {
	now := time.Now()
	if key, ok := informer.Key(object); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		first(&o.of(key).gone, true, now)
	}
}

func (o *observer) jobSet(object any) {
	js, ok := object.(*jobset.JobSet)
	if !ok {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.of(cache.MetaObjectToName(js))
	first(&n.jobSet, true, now)
	if n.uid != "" && n.uid != js.UID {
		o.wrong = append(o.wrong, fmt.Errorf("JobSet %s/%s was created twice", js.Namespace, js.Name))
	}
	n.uid = js.UID
}

// waiting is how many jobs were created and have no JobSet yet.
func (o *observer) waiting() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, note := range o.notes {
		if !note.created.IsZero() && note.jobSet.IsZero() {
			n++
		}
	}
	return n
}

// faults are what must never be seen.
func (o *observer) faults() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.wrong...)
}

// note is a copy of what was seen of a job.
func (o *observer) note(job *trainer.TrainJob) note {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *o.of(cache.MetaObjectToName(job))
}

// all waits until something has been seen of every job.
func (o *observer) all(ctx context.Context, what string, jobs []*trainer.TrainJob, at func(note) time.Time) error {
	left := slices.Clone(jobs)
	return await(ctx, what, func() int {
		left = slices.DeleteFunc(left, func(job *trainer.TrainJob) bool { return !at(o.note(job)).IsZero() })
		return len(left)
	})
}

// delays are the times from one moment of a job to another, sorted.
func (o *observer) delays(jobs []*trainer.TrainJob, from func(*trainer.TrainJob, note) time.Time, to func(note) time.Time) []time.Duration {
	delays := make([]time.Duration, len(jobs))
	for i, job := range jobs {
		n := o.note(job)
		delays[i] = to(n).Sub(from(job, n))
	}
	slices.Sort(delays)
	return delays
}

// last is the latest of the moments.
func (o *observer) last(jobs []*trainer.TrainJob, at func(note) time.Time) time.Time {
	var last time.Time
	for _, job := range jobs {
		if t := at(o.note(job)); t.After(last) {
			last = t
		}
	}
	return last
}

// Moments of a job.
func jobSetAt(n note) time.Time                       { return n.jobSet }
func activeAt(n note) time.Time                       { return n.active }
func runningAt(n note) time.Time                      { return n.running }
func endedAt(n note) time.Time                        { return n.ended }
func goneAt(n note) time.Time                         { return n.gone }
func createdAt(_ *trainer.TrainJob, n note) time.Time { return n.created }
func since(t time.Time) func(*trainer.TrainJob, note) time.Time {
	return func(*trainer.TrainJob, note) time.Time { return t }
}
