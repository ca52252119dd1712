package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// subject is who gives TrainJobs their JobSets: plain clients, or a controller.
type subject struct {
	command
	// plain clients, or the process.
	plain   *plain
	process *process
}

// limit makes the plain clients a subject.
func (a *arena) limit(ctx context.Context) (*subject, error) {
	p, err := a.plain(ctx)
	return &subject{command: command{name: limitName, snapshots: true}, plain: p}, err
}

// begin starts a controller, and returns when it is ready.
func (a *arena) begin(ctx context.Context, c command) (*subject, error) {
	p, err := a.start(c)
	if err != nil {
		return nil, err
	}
	if _, err := p.ready(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &subject{command: c, process: p}, nil
}

func (s *subject) stop() error {
	if s.process != nil {
		return s.process.stop()
	}
	s.plain.stop()
	return s.plain.trouble()
}

// create creates the jobs, which then get their JobSets.
func (s *subject) create(ctx context.Context, a *arena, jobs []*trainer.TrainJob) error {
	if s.plain == nil {
		return a.create(ctx, jobs, nil)
	}
	return a.create(ctx, jobs, s.plain.take)
}

// build creates n jobs in a new namespace, waits until each has its JobSet and nothing is
// written any more, and checks what there is.
func (s *subject) build(ctx context.Context, a *arena, n int) (*built, error) {
	namespace, err := a.namespace(ctx)
	if err != nil {
		return nil, err
	}
	built := &built{namespace: namespace, jobs: jobsOf(namespace, "job", n)}
	if s.plain != nil {
		if err := s.plain.prepare(built.jobs); err != nil {
			return nil, err
		}
	}
	if built.calls, err = a.callsOf(ctx, s.user()); err != nil {
		return nil, err
	}
	built.begin = time.Now()
	if err := s.create(ctx, a, built.jobs); err != nil {
		return nil, err
	}
	if err := a.seen.all(ctx, "JobSets", built.jobs, jobSetAt); err != nil {
		return nil, err
	}
	if built.lastWrite, err = built.calls.settle(ctx); err != nil {
		return nil, err
	}
	return built, a.children(ctx, namespace, built.jobs, s.snapshots)
}

// built is a burst that has its JobSets.
type built struct {
	namespace        string
	jobs             []*trainer.TrainJob
	calls            *calls
	begin, lastWrite time.Time
}

// bursts measures N TrainJobs that are created at once, and their life afterwards.
func (b *bench) bursts(ctx context.Context) error {
	var errs []error
	for _, n := range b.options.burst {
		b.say("burst of %d", n)
		errs = append(errs, b.each(ctx,
			func(ctx context.Context, a *arena) error {
				s, err := a.limit(ctx)
				if err != nil {
					return err
				}
				return errors.Join(a.burst(ctx, s, n), s.stop())
			},
			func(ctx context.Context, a *arena, c command) error {
				s, err := a.begin(ctx, c)
				if err != nil {
					return err
				}
				return errors.Join(a.burst(ctx, s, n), s.stop())
			}))
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
	var before time.Duration
	var err error
	if s.process != nil {
		if before, err = s.process.cpu(); err != nil {
			return err
		}
	}
	done, err := s.build(ctx, a, n)
	if err != nil {
		return err
	}
	page := a.bench.results.page("burst", s.name, n)
	took := a.seen.last(done.jobs, jobSetAt).Sub(done.begin)
	page.duration("time", took)
	page.add("rate", "1/s", float64(n)/took.Seconds())
	page.add("rate until the last write", "1/s", float64(n)/done.lastWrite.Sub(done.begin).Seconds())
	page.delays("create to JobSet", a.seen.delays(done.jobs, createdAt, jobSetAt))
	if s.process == nil {
		return nil
	}
	after, err := s.process.cpu()
	if err != nil {
		return err
	}
	page.add("CPU per 1,000 TrainJobs", "s", (after-before).Seconds()/float64(n)*1000)
	rss, err := s.process.memory("VmRSS")
	if err != nil {
		return err
	}
	page.add("resident memory", "MB", rss/1e6)
	built := counts(done.calls.all)
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
