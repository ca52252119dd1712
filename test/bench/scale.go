package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// scale measures a controller that starts among many TrainJobs.
func (b *bench) scale(ctx context.Context) error {
	return b.each(ctx, nil, func(ctx context.Context, a *arena, c command) error {
		namespace, templates, err := a.templates(ctx, c)
		if err != nil {
			return fmt.Errorf("make templates: %w", err)
		}
		have := len(templates)
		var empty *footprint
		for _, n := range append([]int{have}, b.options.scale...) {
			if n < have {
				continue
			}
			b.say("%s among %d TrainJobs", c.name, n)
			if err := a.copies(ctx, templates, have, n-have); err != nil {
				return err
			}
			have = n
			if err := a.complete(ctx, namespace, n); err != nil {
				return err
			}
			if empty, err = a.among(ctx, c, n, len(templates), empty); err != nil {
				return fmt.Errorf("%d TrainJobs: %w", n, err)
			}
		}
		return nil
	})
}

// mix is the states of the jobs that exist: of ten, five are over, two run, two wait in a
// queue, suspended, and one waits for its pods.
var mix = []act{succeed, ready, "suspended", succeed, begin, succeed, ready, "suspended", succeed, succeed}

// templates has the controller make one job of each kind in the mix, and stops it.
func (a *arena) templates(ctx context.Context, c command) (string, []*template, error) {
	namespace, err := a.namespace(ctx)
	if err != nil {
		return "", nil, err
	}
	s, err := a.begin(ctx, c)
	if err != nil {
		return "", nil, err
	}
	jobs := jobsOf(namespace, "existing", len(mix))
	if err := errors.Join(a.playMix(ctx, s, jobs), s.stop()); err != nil {
		return "", nil, err
	}
	var templates []*template
	for _, job := range jobs {
		t, err := a.templateOf(ctx, job)
		if err != nil {
			return "", nil, err
		}
		templates = append(templates, t)
	}
	return namespace, templates, nil
}

// playMix creates a job of each kind and brings it to its state.
func (a *arena) playMix(ctx context.Context, s *subject, jobs []*trainer.TrainJob) error {
	calls, err := a.callsOf(ctx, s.user())
	if err != nil {
		return err
	}
	var started []*trainer.TrainJob
	steps := map[act][]*trainer.TrainJob{}
	for i, job := range jobs {
		if mix[i] == "suspended" {
			job.Spec.Suspend = ptr.To(true)
			continue
		}
		started = append(started, job)
		// What is over has run, and what runs has begun.
		steps[begin] = append(steps[begin], job)
		if mix[i] != begin {
			steps[ready] = append(steps[ready], job)
		}
		if mix[i] == succeed {
			steps[succeed] = append(steps[succeed], job)
		}
	}
	if err := a.create(ctx, jobs, nil); err != nil {
		return err
	}
	if err := a.seen.all(ctx, "JobSets", started, jobSetAt); err != nil {
		return err
	}
	for _, what := range []act{begin, ready, succeed} {
		if err := a.play.all(ctx, what, steps[what]); err != nil {
			return err
		}
		if _, err := calls.settle(ctx); err != nil {
			return err
		}
	}
	return a.seen.all(ctx, "completed jobs", steps[succeed], endedAt)
}

// complete checks that all jobs are there, and that the API server takes the last copies
// for its own objects.
func (a *arena) complete(ctx context.Context, namespace string, n int) error {
	if err := await(ctx, "copies of TrainJobs", func() int { return n - a.count(namespace) }); err != nil {
		return err
	}
	list, err := a.trainer.TrainerV1alpha1().TrainJobs(namespace).List(ctx, metav1.ListOptions{Limit: int64(len(mix) * 2)})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := a.genuine(ctx, namespace, list.Items[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (a *arena) count(namespace string) (n int) {
	for _, key := range a.seen.jobs.GetStore().ListKeys() {
		if len(key) > len(namespace) && key[:len(namespace)+1] == namespace+"/" {
			n++
		}
	}
	return n
}

// footprint is what a process holds.
type footprint struct{ rss, heap float64 }

// among starts the controller among n jobs and watches it. `empty` is its footprint
// among next to none, nil if that is what is measured now.
func (a *arena) among(ctx context.Context, c command, n, least int, empty *footprint) (*footprint, error) {
	page := a.bench.results.page("scale", c.name, n)
	calls, err := a.callsOf(ctx, c.user())
	if err != nil {
		return nil, err
	}
	// A job that waits for the controller shows when it works, whoever made it.
	namespace, err := a.namespace(ctx)
	if err != nil {
		return nil, err
	}
	waiting := jobsOf(namespace, "waiting", 1)
	if err := a.create(ctx, waiting, nil); err != nil {
		return nil, err
	}
	server, err := a.apiServerCPU()
	if err != nil {
		return nil, err
	}
	p, err := a.start(c)
	if err != nil {
		return nil, err
	}
	s := &subject{command: c, process: p}
	var found *footprint
	err = a.with(s, func() (err error) {
		found, err = a.observe(ctx, page, s, calls, waiting, server)
		return err
	})
	if err != nil {
		return nil, err
	}
	if empty == nil {
		return found, nil
	}
	page.add("resident memory per job", "kB", (found.rss-empty.rss)/float64(n-least)/1e3)
	if found.heap > 0 {
		page.add("live heap per job", "kB", (found.heap-empty.heap)/float64(n-least)/1e3)
	}
	return empty, nil
}

// observe measures the start, the rest, and one new job. `server` is the CPU time of the
// API server before the start.
func (a *arena) observe(ctx context.Context, page *page, s *subject, calls *calls, waiting []*trainer.TrainJob, server time.Duration) (*footprint, error) {
	p := s.process
	ready, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	if ready > 0 {
		page.duration("start to ready", ready)
	}
	if err := a.seen.all(ctx, "the JobSet of the job that waited", waiting, jobSetAt); err != nil {
		return nil, err
	}
	page.duration("start to the JobSet of a job that waited", a.seen.delays(waiting, since(p.started), jobSetAt)[0])
	if err := a.calm(ctx, page, p, calls); err != nil {
		return nil, err
	}
	serverAfter, err := a.apiServerCPU()
	if err != nil {
		return nil, err
	}
	page.duration("CPU of the API server for the start", serverAfter-server)
	if err := a.rest(ctx, page, p, calls); err != nil {
		return nil, err
	}
	var found footprint
	if found.rss, err = p.memory("VmRSS"); err != nil {
		return nil, err
	}
	page.add("resident memory", "MB", found.rss/1e6)
	peak, err := p.memory("VmHWM")
	if err != nil {
		return nil, err
	}
	page.add("resident memory, the most at the start", "MB", peak/1e6)
	var delays []time.Duration
	for range 5 {
		took, err := a.oneJob(ctx)
		if err != nil {
			return nil, err
		}
		delays = append(delays, took)
	}
	slices.Sort(delays)
	page.duration("one new job, create to JobSet, median of 5", delays[2])
	if heap, ok := p.liveHeap(ctx); ok {
		found.heap = heap
		page.add("live heap", "MB", heap/1e6)
	}
	return &found, a.seen.faults()
}

// calm waits until the controller has nothing more to do after its start.
func (a *arena) calm(ctx context.Context, page *page, p *process, calls *calls) error {
	before, err := p.cpu()
	if err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < restless; { // one that never rests shows as such
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		after, err := p.cpu()
		if err != nil {
			return err
		}
		if after-before < 50*time.Millisecond {
			break
		}
		before = after
	}
	if err := calls.silent(ctx); err != nil {
		return err
	}
	writes := 0
	for _, e := range calls.all {
		if work(e) {
			writes++
		}
	}
	used, err := p.cpu()
	page.duration("CPU of the start", used)
	page.add("writes of the start, for the one job that waited", "", float64(writes))
	return err
}

// rest measures what an idle controller does.
func (a *arena) rest(ctx context.Context, page *page, p *process, calls *calls) error {
	calls.all = nil
	before, err := p.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sleep(ctx, a.bench.options.idle); err != nil {
		return err
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	took := time.Since(began)
	if _, err := calls.read(ctx); err != nil {
		return err
	}
	writes := 0
	for _, e := range calls.all {
		if told(e) {
			writes++
		}
	}
	page.add("idle: CPU", "% of a core", 100*(after-before).Seconds()/took.Seconds())
	page.add("idle: writes but the Lease's", "", float64(writes))
	return nil
}
