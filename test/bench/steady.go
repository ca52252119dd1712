package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// steady measures a flow of TrainJobs that begin, complete and are deleted.
func (b *bench) steady(ctx context.Context) error {
	ttl := time.Duration(b.options.ttl) * time.Second
	var errs []error
	for _, rate := range b.options.rates {
		errs = append(errs, b.eachSubject(ctx, ttl, func(ctx context.Context, a *arena, s *subject) error { return a.steady(ctx, s, rate) }))
	}
	return errors.Join(errs...)
}

// steady measures one subject at one rate.
func (a *arena) steady(ctx context.Context, s *subject, rate int) error {
	o := a.bench.options
	a.bench.say("%s: %d TrainJobs a second for %v", s.name, rate, o.steady)
	namespace, err := a.namespace(ctx)
	if err != nil {
		return err
	}
	calls, err := a.callsOf(ctx, s.user())
	if err != nil {
		return err
	}
	jobs := jobsOf(namespace, "job", int(float64(rate)*o.steady.Seconds())+1)
	for _, job := range jobs {
		job.Spec.TTLSecondsAfterFinished = &o.ttl
	}
	page := a.bench.results.page(fmt.Sprintf("steady, %d a second", rate), s.name, len(jobs)-1)
	if s.plain != nil {
		if err := s.plain.prepare(jobs); err != nil {
			return err
		}
	}
	a.play.letLive(o.runFor)
	watching, stop := context.WithCancel(ctx)
	// More than 20 s behind, a flow is not steady: the machine cannot take it.
	meter := meter{waiting: a.seen.waiting, most: 20 * rate}
	var metering sync.WaitGroup
	metering.Go(func() { meter.run(watching, s.process) })
	defer metering.Wait()
	defer stop()

	before, err := a.used(s)
	if err != nil {
		return err
	}
	begin, made := time.Now(), 0
	err = paced(ctx, float64(rate), o.steady, meter.behind.Load, func(ctx context.Context, i int) error {
		return a.createOne(ctx, jobs[i], s.take)
	}, &made)
	took := time.Since(begin)
	if err != nil {
		return err
	}
	jobs = jobs[:made]
	page.add("created", "1/s", float64(made)/took.Seconds())
	page.add("created in all", "", float64(made))
	page.duration("not too far behind for", took)
	if meter.behind.Load() {
		a.bench.say("%s: %d TrainJobs wait after %v: the flow ends here", s.name, meter.most, took.Round(time.Second))
	}
	if err := a.seen.all(ctx, "deletions after the TTL", jobs, goneAt); err != nil {
		return err
	}
	page.duration("time until the last is deleted", time.Since(begin))
	after, err := a.used(s)
	if err != nil {
		return err
	}
	stop()
	metering.Wait()
	page.cpu(before, after, made)
	page.delays("create to JobSet", a.seen.delays(jobs, createdAt, jobSetAt))
	page.delays("create to end", a.seen.delays(jobs, createdAt, endedAt))
	meter.report(page, took)
	if _, err := calls.settle(ctx); err != nil {
		return err
	}
	most, all := statusWrites(calls.all)
	page.add("status writes over life, the most of any", "per job", float64(most))
	page.add("status writes over life", "per job", float64(all)/float64(made))
	if err := await(ctx, "JobSets that are collected", func() int { return a.jobSetsIn(namespace) }); err != nil {
		return err
	}
	return errors.Join(a.lived(jobs), a.empties(ctx, namespace))
}

// lived checks that every job completed before it was deleted. That it was seen to run is
// no promise: what begins and ends while a controller is busy is seen as ended.
func (a *arena) lived(jobs []*trainer.TrainJob) error {
	for _, job := range jobs {
		n := a.seen.note(job)
		if n.jobSet.IsZero() || n.ended.IsZero() || n.reason != "AllJobsCompleted" {
			return fmt.Errorf("TrainJob %s was deleted without having completed (%q)", job.Name, n.reason)
		}
	}
	return nil
}

// meter reads every other second what flows. To be asked for its metrics costs a
// controller too.
type meter struct {
	// waiting is how many TrainJobs have no JobSet yet. When they are more than the most,
	// behind becomes true.
	waiting                       func() int
	most                          int
	behind                        atomic.Bool
	at, backlog, depth, rss, heap []float64
}

// run reads until ctx ends. Plain clients, which are no process, have a backlog only.
func (m *meter) run(ctx context.Context, p *process) {
	begin := time.Now()
	for sleep(ctx, 2*time.Second) == nil {
		waiting := m.waiting()
		if waiting > m.most {
			m.behind.Store(true)
		}
		m.at, m.backlog = append(m.at, time.Since(begin).Seconds()), append(m.backlog, float64(waiting))
		if p == nil {
			continue
		}
		rss, err := p.memory("VmRSS")
		if err != nil {
			return // it has ended, which the scenario will notice
		}
		body, _ := p.get(ctx, "/metrics") // a controller without metrics has none
		depth, _ := sample(body, "workqueue_depth")
		heap, _ := sample(body, "go_gc_heap_live_bytes")
		m.rss, m.depth, m.heap = append(m.rss, rss/1e6), append(m.depth, depth), append(m.heap, heap/1e6)
	}
}

// report compares the middle of the time with its end: what is flat is the same.
func (m *meter) report(page *page, during time.Duration) {
	n := 0
	for n < len(m.at) && m.at[n] <= during.Seconds() {
		n++
	}
	if n < 4 {
		return // too short to say anything
	}
	for _, of := range []struct {
		name, unit string
		values     []float64
	}{
		{"TrainJobs without JobSet", "", m.backlog}, {"queue depth", "", m.depth},
		{"resident memory", "MB", m.rss}, {"live heap", "MB", m.heap},
	} {
		if len(of.values) < n {
			continue // not measured
		}
		page.course(of.name, m.at[:n], of.values[:n])
		page.add(of.name+", second quarter", of.unit, median(of.values[n/4:n/2]))
		page.add(of.name+", last quarter", of.unit, median(of.values[n-n/4:n]))
	}
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}
