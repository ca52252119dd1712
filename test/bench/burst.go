package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

const runtimeName = "bench"

// bench drives one controller through API objects.
type bench struct {
	env           *harness.Env
	jobs, clients int
}

// burstFigures of N TrainJobs created at once.
type burstFigures struct {
	// total is from the first create to the last JobSet.
	total time.Duration
	// latency is from a TrainJob's create to its JobSet's, sorted.
	latency []time.Duration
	// writes of the controller by verb and resource.
	writes map[string]int
	cpu    time.Duration
	rss    int64
}

func (b *bench) prepare(ctx context.Context) error {
	runtime := builders.ClusterTrainingRuntime(runtimeName, builders.TorchSpec())
	_, err := b.env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(ctx, runtime, metav1.CreateOptions{})
	return err
}

func (b *bench) namespace(ctx context.Context, name string) error {
	_, err := b.env.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (b *bench) job(namespace string, i int) *trainer.TrainJob {
	return &trainer.TrainJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("job-%05d", i)},
		Spec:       trainer.TrainJobSpec{RuntimeRef: trainer.RuntimeRef{Name: runtimeName}},
	}
}

// each runs work for every job, by as many clients at once as were asked for.
func (b *bench) each(ctx context.Context, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var busy sync.WaitGroup
	for range b.clients {
		busy.Go(func() {
			for i := range next {
				if err := work(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range b.jobs {
		next <- i
	}
	close(next)
	busy.Wait()
	return context.Cause(ctx)
}

// limit writes what the controller would write, as fast as the API server takes it:
// the TrainJobs, and for each its snapshot, its JobSet and its first status.
func (b *bench) limit(ctx context.Context) (time.Duration, error) {
	const namespace = "limit"
	if err := b.namespace(ctx, namespace); err != nil {
		return 0, err
	}
	runtime := runtimesnapshot.FromClusterTrainingRuntime(builders.ClusterTrainingRuntime(runtimeName, builders.TorchSpec()))
	begin := time.Now()
	err := b.each(ctx, func(ctx context.Context, i int) error {
		job, err := b.env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(ctx, b.job(namespace, i), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		cm, err := runtimesnapshot.Encode(job, runtime)
		if err != nil {
			return err
		}
		if cm, err = b.env.Core.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return err
		}
		objects, err := render.Render(job, render.FromSnapshot(runtime))
		if err != nil {
			return err
		}
		js, err := b.env.JobSet.JobsetV1alpha2().JobSets(namespace).Create(ctx, objects.JobSet, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		job.Status = *trainjob.Next(job, trainjob.Observed{JobSet: js, Snapshot: runtimesnapshot.Reference(cm), Nodes: &objects.Nodes}, time.Now())
		_, err = b.env.Trainer.TrainerV1alpha1().TrainJobs(namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
		return err
	})
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	// The controller must not find them: they would be part of its start.
	return took, b.env.Trainer.TrainerV1alpha1().TrainJobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// burst creates the TrainJobs at once and waits until each has its JobSet.
func (b *bench) burst(ctx context.Context) (*burstFigures, error) {
	const namespace = "burst"
	if err := b.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	before, err := b.env.Cluster.AuditNow(ctx)
	if err != nil {
		return nil, err
	}
	cpuBefore, err := cpuTime(b.env.Controller.Pid())
	if err != nil {
		return nil, err
	}
	seen, err := b.watchJobSets(ctx, namespace)
	if err != nil {
		return nil, err
	}
	figures := &burstFigures{latency: make([]time.Duration, b.jobs), writes: map[string]int{}}
	created := make([]time.Time, b.jobs)
	begin := time.Now()
	if err := b.each(ctx, func(ctx context.Context, i int) error {
		created[i] = time.Now()
		_, err := b.env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(ctx, b.job(namespace, i), metav1.CreateOptions{})
		return err
	}); err != nil {
		return nil, err
	}
	times, err := seen(2 * time.Minute)
	if err != nil {
		return nil, err
	}
	for i := range created {
		at := times[b.job(namespace, i).Name]
		figures.latency[i] = at.Sub(created[i])
		figures.total = max(figures.total, at.Sub(begin))
	}
	slices.Sort(figures.latency)
	if err := b.settled(ctx, namespace); err != nil {
		return nil, err
	}
	cpuAfter, err := cpuTime(b.env.Controller.Pid())
	if err != nil {
		return nil, err
	}
	figures.cpu = cpuAfter - cpuBefore
	if figures.rss, err = residentBytes(b.env.Controller.Pid()); err != nil {
		return nil, err
	}
	return figures, b.countWrites(ctx, before, figures.writes)
}

// watchJobSets starts to watch; the function it returns waits until there is one for
// every job and says when each came.
func (b *bench) watchJobSets(ctx context.Context, namespace string) (func(time.Duration) (map[string]time.Time, error), error) {
	watch, err := b.env.JobSet.JobsetV1alpha2().JobSets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return func(timeout time.Duration) (map[string]time.Time, error) {
		defer watch.Stop()
		times := map[string]time.Time{}
		late := time.After(timeout)
		for len(times) < b.jobs {
			select {
			case event, open := <-watch.ResultChan():
				if !open {
					return nil, fmt.Errorf("the watch ended with %d of %d JobSets", len(times), b.jobs)
				}
				object, ok := event.Object.(metav1.Object)
				if !ok {
					return nil, fmt.Errorf("the watch gave a %T", event.Object)
				}
				if _, known := times[object.GetName()]; !known {
					times[object.GetName()] = time.Now()
				}
			case <-late:
				return nil, fmt.Errorf("%d of %d JobSets after %v", len(times), b.jobs, timeout)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return times, nil
	}, nil
}

// settled waits until every job's status says that it waits for its pods, and checks
// that its JobSet is its own.
func (b *bench) settled(ctx context.Context, namespace string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		list, err := b.env.Trainer.TrainerV1alpha1().TrainJobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		open := 0
		for i := range list.Items {
			if list.Items[i].Status.State != trainer.TrainJobPending || list.Items[i].Status.Nodes == nil {
				open++
			}
		}
		if open == 0 {
			return b.owned(ctx, list.Items)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d jobs still have no status", open)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *bench) owned(ctx context.Context, jobs []trainer.TrainJob) error {
	if len(jobs) != b.jobs {
		return fmt.Errorf("%d TrainJobs, want %d", len(jobs), b.jobs)
	}
	for i := range jobs {
		js, err := b.env.JobSet.JobsetV1alpha2().JobSets(jobs[i].Namespace).Get(ctx, jobs[i].Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if trainjob.OwnershipOf(&jobs[i], js) != trainjob.Ours {
			return fmt.Errorf("JobSet %s does not belong to its TrainJob", js.Name)
		}
	}
	return nil
}

// countWrites counts the controller's own writes; those of the events it tells of
// apart.
func (b *bench) countWrites(ctx context.Context, since cluster.AuditPosition, writes map[string]int) error {
	events, err := b.env.Cluster.AuditEvents(ctx, since, cluster.AuditFilter{UserAgentPrefix: "trainjob-controller", Writes: true})
	for _, e := range events {
		resource := e.Resource
		if e.Subresource != "" {
			resource += "/" + e.Subresource
		}
		writes[fmt.Sprintf("%s %s %d", e.Verb, resource, e.Code)]++
	}
	return err
}

// idleFigures of a controller with nothing to do.
type idleFigures struct {
	during time.Duration
	cpu    time.Duration
	writes int
}

func (b *bench) idle(ctx context.Context, during time.Duration) (*idleFigures, error) {
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	before, err := b.env.Cluster.AuditNow(ctx)
	if err != nil {
		return nil, err
	}
	cpuBefore, err := cpuTime(b.env.Controller.Pid())
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(during):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	cpuAfter, err := cpuTime(b.env.Controller.Pid())
	if err != nil {
		return nil, err
	}
	writes := map[string]int{}
	if err := b.countWrites(ctx, before, writes); err != nil {
		return nil, err
	}
	figures := &idleFigures{during: during, cpu: cpuAfter - cpuBefore}
	for _, n := range writes {
		figures.writes += n
	}
	return figures, nil
}

// quiet waits until the events of the burst have been sent.
func (b *bench) quiet(ctx context.Context) error {
	for {
		before, err := b.env.Cluster.AuditNow(ctx)
		if err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		writes := map[string]int{}
		if err := b.countWrites(ctx, before, writes); err != nil {
			return err
		}
		if len(writes) == 0 {
			return nil
		}
	}
}

func report(out io.Writer, jobs int, limit time.Duration, burst *burstFigures, idle *idleFigures) {
	p := func(q float64) time.Duration {
		return burst.latency[int(q*float64(len(burst.latency)-1))].Round(time.Millisecond)
	}
	rate := func(d time.Duration) float64 { return float64(jobs) / d.Seconds() }
	fmt.Fprintf(out, "burst of %d TrainJobs, etcd and API server alone\n", jobs)
	fmt.Fprintf(out, "  limit (plain client)  %6.2fs  %6.0f jobs/s\n", limit.Seconds(), rate(limit))
	fmt.Fprintf(out, "  controller            %6.2fs  %6.0f jobs/s  %.0f %% of the limit's rate\n", burst.total.Seconds(), rate(burst.total), 100*limit.Seconds()/burst.total.Seconds())
	fmt.Fprintf(out, "  create to JobSet      p50 %v  p99 %v  max %v\n", p(0.5), p(0.99), p(1))
	fmt.Fprintf(out, "  controller CPU        %.2fs per 1000 jobs, RSS %d MiB\n", burst.cpu.Seconds()*1000/float64(jobs), burst.rss>>20)
	for _, name := range sortedKeys(burst.writes) {
		fmt.Fprintf(out, "  %-34s %6d  %.2f per job\n", name, burst.writes[name], float64(burst.writes[name])/float64(jobs))
	}
	fmt.Fprintf(out, "idle for %v with %d jobs\n", idle.during, jobs)
	fmt.Fprintf(out, "  writes %d, CPU %.2f %% of a core\n", idle.writes, 100*idle.cpu.Seconds()/idle.during.Seconds())
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// cpuTime of a process so far, user and system. Linux only.
func cpuTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The name in parentheses may hold spaces; the fields after it do not.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("read CPU time: %q", raw)
	}
	const ticks = 100 // per second, on every Linux platform Go runs on
	return time.Duration(user+system) * time.Second / ticks, nil
}

// residentBytes of a process.
func residentBytes(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
