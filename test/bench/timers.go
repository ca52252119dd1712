package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// timers measures how late deadlines and TTLs are enforced: many in one second, and
// spread over time.
func (b *bench) timers(ctx context.Context) error {
	n := b.options.timers
	b.say("%d deadlines and %d TTLs in one second", n, n)
	err := b.each(ctx,
		func(ctx context.Context, a *arena) error { return a.limitTimers(ctx, n) },
		func(ctx context.Context, a *arena, c command) error { return a.timers(ctx, c, n) })
	b.ratio("timers", n, "deadlines p99: of the limit's", "deadline in one second p99", "deadline in one second p99", false)
	b.ratio("timers", n, "TTLs p99: of the limit's", "TTL in one second p99", "TTL in one second p99", false)
	return err
}

// limitTimers writes as many failures, and makes as many deletions, with plain clients.
func (a *arena) limitTimers(ctx context.Context, n int) error {
	s, err := a.limit(ctx, 0)
	if err != nil {
		return err
	}
	page := a.bench.results.page("timers", limitName, n)
	return a.with(s, func() error {
		if _, err := s.build(ctx, a, min(n, 20)); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
		done, err := s.build(ctx, a, n)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := a.onEach(ctx, done.jobs, s.plain.fail); err != nil {
			return err
		}
		if err := a.seen.all(ctx, "failures", done.jobs, endedAt); err != nil {
			return err
		}
		page.delays("deadline in one second", a.seen.delays(done.jobs, since(begin), endedAt))
		return a.limitTTLs(ctx, page, s.plain, n)
	})
}

// limitTTLs deletes the same finished jobs as a controller does after their TTLs.
func (a *arena) limitTTLs(ctx context.Context, page *page, p *plain, n int) error {
	namespace, jobs, err := a.finished(ctx, n, time.Now(), math.MaxInt32)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := a.onEach(ctx, jobs, p.remove); err != nil {
		return err
	}
	if err := a.seen.all(ctx, "deletions", jobs, goneAt); err != nil {
		return err
	}
	page.delays("TTL in one second", a.seen.delays(jobs, since(begin), goneAt))
	return a.empties(ctx, namespace)
}

// onEach reads the jobs and then does something to all of them at once.
func (a *arena) onEach(ctx context.Context, jobs []*trainer.TrainJob, what func(context.Context, *trainer.TrainJob) error) error {
	live := make([]*trainer.TrainJob, len(jobs))
	for i, job := range jobs {
		object, found, err := a.seen.jobs.GetStore().GetByKey(cache.MetaObjectToName(job).String())
		if err != nil || !found {
			return fmt.Errorf("TrainJob %s is not in the cache: %w", job.Name, err)
		}
		live[i] = object.(*trainer.TrainJob)
	}
	return a.each(ctx, len(live), func(ctx context.Context, i int) error { return what(ctx, live[i]) })
}

// timers measures a controller.
func (a *arena) timers(ctx context.Context, c command, n int) error {
	lead, err := a.lead(ctx, n)
	if err != nil {
		return err
	}
	s, err := a.begin(ctx, c)
	if err != nil {
		return err
	}
	page := a.bench.results.page("timers", c.name, n)
	inOneSecond := func(lead time.Duration) error {
		return a.deadlines(ctx, page, "deadline in one second", s, n, lead, 0)
	}
	spread := func(lead time.Duration) error {
		o := a.bench.options
		if o.spread == 0 {
			return nil
		}
		return a.deadlines(ctx, page, fmt.Sprintf("deadline, spread over %d s", o.spread), s, n, lead, o.spread)
	}
	err = a.with(s, func() error { return errors.Join(unhurried(lead, inOneSecond), unhurried(lead, spread)) })
	if err != nil {
		return err
	}
	return unhurried(lead, func(lead time.Duration) error { return a.ttls(ctx, page, c, n, lead) })
}

// errTooSlow says that a moment came before everything was ready for it.
var errTooSlow = errors.New("the machine was too slow to have all jobs ready in time")

// unhurried tries again with more time when the time was too short.
func unhurried(lead time.Duration, try func(time.Duration) error) error {
	err := try(lead)
	for i := 0; i < 3 && errors.Is(err, errTooSlow); i++ {
		lead *= 2
		err = try(lead)
	}
	return err
}

// lead is how long before the moment a scenario has to begin, so that everything is there
// and at rest when it comes: a few jobs are made by plain clients, and counted on from.
func (a *arena) lead(ctx context.Context, n int) (time.Duration, error) {
	s, err := a.limit(ctx, 0)
	if err != nil {
		return 0, err
	}
	var lead time.Duration
	for range 2 { // the second time is as fast as it gets
		var done *built
		if done, err = s.build(ctx, a, 20); err != nil {
			break
		}
		each := a.seen.last(done.jobs, jobSetAt).Sub(done.begin) / 20
		lead = 3*time.Second + 3*a.bench.options.quiet/2 + 3*time.Duration(n)*each
	}
	return lead, errors.Join(err, s.stop())
}

// deadlines creates n jobs whose deadlines all come in one second, or in as many seconds
// from it as they are spread over, and measures how late they fail. In that moment a new
// job is created, too.
func (a *arena) deadlines(ctx context.Context, page *page, metric string, s *subject, n int, lead time.Duration, spread int) error {
	namespace, err := a.namespace(ctx)
	if err != nil {
		return err
	}
	moment := time.Now().Add(lead).Truncate(time.Second).Add(time.Second)
	jobs := jobsOf(namespace, "job", n)
	due := make(map[string]time.Time, n)
	for i, job := range jobs {
		due[job.Name] = moment.Add(time.Duration(i*spread/n) * time.Second)
	}
	if err := a.createDue(ctx, jobs, due); err != nil {
		return err
	}
	if err := a.atRest(ctx, s, jobs, moment); err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(moment)); err != nil {
		return err
	}
	if err := a.newJob(ctx, page, metric+": new job meanwhile, create to JobSet"); err != nil {
		return err
	}
	if err := a.seen.all(ctx, "failures", jobs, endedAt); err != nil {
		return err
	}
	page.delays(metric, a.seen.delays(jobs, func(job *trainer.TrainJob, _ note) time.Time { return due[job.Name] }, endedAt))
	if err := a.endedAs(ctx, namespace, n, trainer.ReasonDeadlineExceeded); err != nil {
		return err
	}
	return await(ctx, "JobSets of failed jobs that are gone", func() int { return a.jobSetsIn(namespace) })
}

// jobSetsIn counts the JobSets of a namespace.
func (a *arena) jobSetsIn(namespace string) int {
	left, err := a.seen.jobSets.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		panic(err) // every informer has this index
	}
	return len(left)
}

// createDue creates jobs with deadlines at certain times. A deadline counts from the
// creation, of which only the API server knows the second, so that some are due one
// second later; `due` says when in the end.
func (a *arena) createDue(ctx context.Context, jobs []*trainer.TrainJob, due map[string]time.Time) error {
	var mu sync.Mutex
	return a.each(ctx, len(jobs), func(ctx context.Context, i int) error {
		job := jobs[i]
		mu.Lock()
		seconds := due[job.Name].Unix() - time.Now().Unix()
		mu.Unlock()
		job.Spec.ActiveDeadlineSeconds = &seconds
		return a.createOne(ctx, job, func(created *trainer.TrainJob) {
			mu.Lock()
			defer mu.Unlock()
			due[job.Name] = created.CreationTimestamp.Add(time.Duration(seconds) * time.Second)
		})
	})
}

// atRest waits until the jobs have their JobSets and nothing is written any more, which
// must be before the moment.
func (a *arena) atRest(ctx context.Context, s *subject, jobs []*trainer.TrainJob, moment time.Time) error {
	if err := a.seen.all(ctx, "JobSets", jobs, jobSetAt); err != nil {
		return err
	}
	calls, err := a.callsOf(ctx, s.user())
	if err != nil {
		return err
	}
	if _, err := calls.settle(ctx); err != nil {
		return err
	}
	if time.Until(moment) < time.Second {
		return errTooSlow
	}
	return nil
}

// newJob measures how soon one new job has its JobSet.
func (a *arena) newJob(ctx context.Context, page *page, metric string) error {
	took, err := a.oneJob(ctx)
	if err == nil {
		page.duration(metric, took)
	}
	return err
}

// oneJob creates a job in a namespace of its own and waits for its JobSet.
func (a *arena) oneJob(ctx context.Context) (time.Duration, error) {
	namespace, err := a.namespace(ctx)
	if err != nil {
		return 0, err
	}
	jobs := jobsOf(namespace, "new", 1)
	if err := a.create(ctx, jobs, nil); err != nil {
		return 0, err
	}
	if err := a.seen.all(ctx, "the new job's JobSet", jobs, jobSetAt); err != nil {
		return 0, err
	}
	return a.seen.delays(jobs, createdAt, jobSetAt)[0], nil
}

// ttls makes n finished jobs whose times to live all end in one second, starts the
// controller before it, and measures how late they are deleted.
func (a *arena) ttls(ctx context.Context, page *page, c command, n int, lead time.Duration) error {
	finish := time.Now().Truncate(time.Second)
	ttl := int32(lead / time.Second)
	namespace, jobs, err := a.finished(ctx, n, finish, ttl)
	if err != nil {
		return err
	}
	s, err := a.begin(ctx, c)
	if err != nil {
		return err
	}
	return a.with(s, func() error {
		moment := finish.Add(time.Duration(ttl) * time.Second)
		if time.Until(moment) < time.Second {
			return errTooSlow
		}
		if err := sleep(ctx, time.Until(moment)); err != nil {
			return err
		}
		if err := a.newJob(ctx, page, "TTL in one second: new job meanwhile, create to JobSet"); err != nil {
			return err
		}
		if err := a.seen.all(ctx, "deletions", jobs, goneAt); err != nil {
			return err
		}
		page.delays("TTL in one second", a.seen.delays(jobs, since(moment), goneAt))
		return a.empties(ctx, namespace)
	})
}

// finished makes n jobs that have completed at a certain time, and have no children.
func (a *arena) finished(ctx context.Context, n int, finish time.Time, ttl int32) (namespace string, jobs []*trainer.TrainJob, err error) {
	if namespace, err = a.namespace(ctx); err != nil {
		return "", nil, err
	}
	jobs = jobsOf(namespace, "job", n)
	err = a.each(ctx, n, func(ctx context.Context, i int) error {
		jobs[i].Spec.TTLSecondsAfterFinished = &ttl
		return a.createFinished(ctx, jobs[i], finish)
	})
	if err != nil {
		return "", nil, err
	}
	return namespace, jobs, a.seen.all(ctx, "finished jobs", jobs, endedAt)
}

// createFinished makes a job that has completed at a certain time.
func (a *arena) createFinished(ctx context.Context, job *trainer.TrainJob, finish time.Time) error {
	client := a.trainer.TrainerV1alpha1().TrainJobs(job.Namespace)
	created, err := client.Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	stamp := metav1.NewTime(finish)
	created.Status = trainer.TrainJobStatus{
		State: trainer.TrainJobComplete, Reason: "AllJobsCompleted", Message: "jobset completed successfully",
		LastTransitionTime: &stamp, CompletionTime: &stamp, Nodes: ptr.To[int32](jobNodes),
		Lifecycle: &trainer.LifecycleLimits{TTLSecondsAfterFinished: job.Spec.TTLSecondsAfterFinished},
		Conditions: []metav1.Condition{{
			Type: string(trainer.TrainJobComplete), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
			Message: "jobset completed successfully", LastTransitionTime: stamp,
		}},
	}
	_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}
