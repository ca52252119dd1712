package main

import (
	"context"
	"errors"
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

// limit makes the plain clients a subject. With a TTL they follow what they have built
// to its end.
func (a *arena) limit(ctx context.Context, ttl time.Duration) (*subject, error) {
	p, err := a.plain(ctx, ttl)
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

// eachSubject measures the plain clients, which with a TTL follow what they have built, and
// every controller.
func (b *bench) eachSubject(ctx context.Context, ttl time.Duration, measure func(context.Context, *arena, *subject) error) error {
	run := func(ctx context.Context, a *arena, s *subject, err error) error {
		if err != nil {
			return err
		}
		return a.with(s, func() error { return measure(ctx, a, s) })
	}
	return b.each(ctx,
		func(ctx context.Context, a *arena) error {
			s, err := a.limit(ctx, ttl)
			return run(ctx, a, s, err)
		},
		func(ctx context.Context, a *arena, c command) error {
			s, err := a.begin(ctx, c)
			return run(ctx, a, s, err)
		})
}

// with measures a subject and stops it. If anything is wrong, the subject's own end too,
// there is no figure.
func (a *arena) with(s *subject, measure func() error) error {
	return a.bench.results.checked(func() error { return errors.Join(measure(), s.stop()) })
}

func (s *subject) stop() error {
	if s.process != nil {
		return s.process.stop()
	}
	s.plain.stop()
	return s.plain.trouble()
}

// take is told of each job that was created. A controller finds out by itself.
func (s *subject) take(job *trainer.TrainJob) {
	if s.plain != nil {
		s.plain.take(job)
	}
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
	if err := a.create(ctx, built.jobs, s.take); err != nil {
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
