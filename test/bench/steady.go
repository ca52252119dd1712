package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// steady measures a flow of TrainJobs that begin, complete and are deleted.
func (b *bench) steady(ctx context.Context) error {
	return b.each(ctx, nil, func(ctx context.Context, a *arena, c command) error {
		b.say("%s: %g TrainJobs a second for %v", c.name, b.options.rate, b.options.steady)
		s, err := a.begin(ctx, c)
		if err != nil {
			return err
		}
		return errors.Join(a.steady(ctx, s), s.stop())
	})
}

// steady measures one controller.
func (a *arena) steady(ctx context.Context, s *subject) error {
	o := a.bench.options
	namespace, err := a.namespace(ctx)
	if err != nil {
		return err
	}
	calls, err := a.callsOf(ctx, s.user())
	if err != nil {
		return err
	}
	jobs := jobsOf(namespace, "job", int(o.rate*o.steady.Seconds())+1)
	for _, job := range jobs {
		job.Spec.TTLSecondsAfterFinished = &o.ttl
	}
	page := a.bench.results.page("steady", s.name, len(jobs)-1)
	a.play.letLive(o.runFor)
	watching, stop := context.WithCancel(ctx)
	var meter meter
	var metering sync.WaitGroup
	metering.Go(func() { meter.run(watching, s.process) })
	defer metering.Wait()
	defer stop()

	before, err := s.process.cpu()
	if err != nil {
		return err
	}
	begin, made := time.Now(), 0
	err = paced(ctx, o.rate, o.steady, func(ctx context.Context, i int) error {
		a.seen.creating(jobs[i])
		_, err := a.trainer.TrainerV1alpha1().TrainJobs(namespace).Create(ctx, jobs[i], metav1.CreateOptions{})
		return err
	}, &made)
	took := time.Since(begin)
	if err != nil {
		return err
	}
	jobs = jobs[:made]
	page.add("created", "1/s", float64(made)/took.Seconds())
	if err := a.seen.all(ctx, "deletions after the TTL", jobs, goneAt); err != nil {
		return err
	}
	after, err := s.process.cpu()
	if err != nil {
		return err
	}
	stop()
	metering.Wait()
	page.add("CPU per 1,000 TrainJobs", "s", (after-before).Seconds()/float64(made)*1000)
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
type meter struct{ at, depth, rss, heap []float64 }

func (m *meter) run(ctx context.Context, p *process) {
	begin := time.Now()
	for sleep(ctx, 2*time.Second) == nil {
		rss, err := p.memory("VmRSS")
		if err != nil {
			return // it has ended, which the scenario will notice
		}
		body, _ := p.get(ctx, "/metrics") // a controller without metrics has none
		depth, _ := sample(body, "workqueue_depth")
		heap, _ := sample(body, "go_gc_heap_live_bytes")
		m.at, m.rss = append(m.at, time.Since(begin).Seconds()), append(m.rss, rss/1e6)
		m.depth, m.heap = append(m.depth, depth), append(m.heap, heap/1e6)
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
	page.course("queue depth", m.at[:n], m.depth[:n])
	page.course("resident memory", m.at[:n], m.rss[:n])
	page.course("live heap", m.at[:n], m.heap[:n])
	for _, of := range []struct {
		name, unit string
		values     []float64
	}{{"queue depth", "", m.depth[:n]}, {"resident memory", "MB", m.rss[:n]}, {"live heap", "MB", m.heap[:n]}} {
		page.add(of.name+", second quarter", of.unit, median(of.values[n/4:n/2]))
		page.add(of.name+", last quarter", of.unit, median(of.values[n-n/4:]))
	}
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}
