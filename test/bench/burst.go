package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trainjob/controller/test/harness"
)

// bursts measures N TrainJobs that are created at once, and their life afterwards.
func (b *bench) bursts(ctx context.Context) error {
	var errs []error
	for _, n := range b.options.burst {
		b.say("burst of %d", n)
		errs = append(errs, b.eachSubject(ctx, 0, func(ctx context.Context, a *arena, s *subject) error { return a.burst(ctx, s, n) }))
		b.ratio("burst", n, "rate: of the limit's", "rate", "rate", false)
		b.ratio("burst", n, "rate until the last write: of the limit's", "rate until the last write", "rate until the last write", false)
		b.ratio("burst", n, "create to JobSet p99: of the limit's time", "create to JobSet p99", "time", false)
	}
	return errors.Join(errs...)
}

// burst measures one subject.
func (a *arena) burst(ctx context.Context, s *subject, n int) error {
	// The first calls to an API server that has just started are slower.
	if _, err := s.build(ctx, a, min(n, 20)); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	before, err := a.used(s)
	if err != nil {
		return err
	}
	done, err := s.build(ctx, a, n)
	if err != nil {
		return err
	}
	after, err := a.used(s)
	if err != nil {
		return err
	}
	page := a.bench.results.page("burst", s.name, n)
	took := a.seen.last(done.jobs, jobSetAt).Sub(done.begin)
	page.duration("time", took)
	page.add("rate", "1/s", float64(n)/took.Seconds())
	page.add("rate until the last write", "1/s", float64(n)/done.lastWrite.Sub(done.begin).Seconds())
	page.delays("create to JobSet", a.seen.delays(done.jobs, createdAt, jobSetAt))
	page.cpu(before, after, n)
	if s.process == nil {
		return nil
	}
	rss, err := s.process.memory("VmRSS")
	if err != nil {
		return err
	}
	page.add("resident memory", "MB", rss/1e6)
	built := harness.Summary(done.calls.all)
	for _, what := range sorted(built) {
		page.add("calls: "+what, "per job", float64(built[what])/float64(n))
	}
	return a.life(ctx, page, s, done)
}

// life takes the jobs of a burst through their lives, and counts what that costs.
func (a *arena) life(ctx context.Context, page *page, s *subject, done *built) error {
	jobs := done.jobs[:min(len(done.jobs), 1000)]
	for _, step := range []struct {
		what act
		seen func(note) time.Time
	}{{begin, activeAt}, {ready, runningAt}, {succeed, endedAt}} {
		started := time.Now()
		if err := a.play.all(ctx, step.what, jobs); err != nil {
			return err
		}
		if err := a.seen.all(ctx, "jobs after "+string(step.what), jobs, step.seen); err != nil {
			return err
		}
		if _, err := done.calls.settle(ctx); err != nil {
			return err
		}
		if step.what == ready {
			most, _ := statusWrites(done.calls.all)
			page.add("creates, all but events", "per job", float64(creates(done.calls.all))/float64(len(done.jobs)))
			page.add("status writes until Running, the most of any", "per job", float64(most))
			took := a.seen.last(jobs, runningAt).Sub(started)
			page.add("rate of jobs that become Running", "1/s", float64(len(jobs))/took.Seconds())
		}
	}
	most, _ := statusWrites(done.calls.all)
	page.add("status writes over life, the most of any", "per job", float64(most))
	return nil
}

func sorted(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
