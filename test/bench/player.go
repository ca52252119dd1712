package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// player does what the JobSet controller and the garbage collector do, as far as a
// controller of TrainJobs can tell.
type player struct {
	arena *arena
	queue workqueue.TypedDelayingInterface[task]

	mu sync.Mutex
	// live, when set, makes every new JobSet run for this long and then complete.
	live time.Duration
	errs []error
}

// task is one thing that a player is to do for a job.
type task struct {
	key  cache.ObjectName
	what act
}

type act string

const (
	release act = "release" // a JobSet that is deleted in the foreground: its Jobs are gone
	collect act = "collect" // what a deleted TrainJob has owned
	begin   act = "begin"   // the Jobs are there, their pods are not
	ready   act = "ready"   // the pods are
	succeed act = "succeed"
)

func newPlayer(a *arena) *player {
	return &player{arena: a, queue: workqueue.NewTypedDelayingQueue[task]()}
}

// letLive makes JobSets that appear from now on run and complete by themselves.
func (p *player) letLive(runFor time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = runFor
}

func (p *player) jobSet(object any) {
	js, ok := object.(*jobset.JobSet)
	if !ok {
		return
	}
	key := cache.MetaObjectToName(js)
	if js.DeletionTimestamp != nil {
		if slices.Contains(js.Finalizers, metav1.FinalizerDeleteDependents) {
			p.queue.Add(task{key, release})
		}
		return
	}
	p.mu.Lock()
	live := p.live
	p.mu.Unlock()
	if live > 0 && len(js.Status.ReplicatedJobsStatus) == 0 {
		p.queue.Add(task{key, ready})
		p.queue.AddAfter(task{key, succeed}, live)
	}
}

func (p *player) jobGone(object any) {
	if key, ok := informer.Key(object); ok {
		p.queue.Add(task{key, collect})
	}
}

// run plays until ctx ends.
func (p *player) run(ctx context.Context) {
	var busy sync.WaitGroup
	for range 10 {
		busy.Go(func() {
			for {
				t, shutdown := p.queue.Get()
				if shutdown {
					return
				}
				if err := p.do(ctx, t); err != nil && ctx.Err() == nil {
					p.mu.Lock()
					p.errs = append(p.errs, fmt.Errorf("play %s of %s: %w", t.what, t.key, err))
					p.mu.Unlock()
				}
				p.queue.Done(t)
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	busy.Wait()
}

// trouble is the first thing that could not be played.
func (p *player) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) > 0 {
		return p.errs[0]
	}
	return nil
}

// do does one thing. What is gone needs nothing more.
func (p *player) do(ctx context.Context, t task) error {
	jobSets := p.arena.jobSet.JobsetV1alpha2().JobSets(t.key.Namespace)
	var err error
	switch t.what {
	case release:
		_, err = jobSets.Patch(ctx, t.key.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	case collect:
		err = p.collect(ctx, t.key)
	default:
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"status": statusAfter(t.what)}); err == nil {
			_, err = jobSets.Patch(ctx, t.key.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// collect deletes the children of a job that is gone.
func (p *player) collect(ctx context.Context, key cache.ObjectName) error {
	err := p.arena.jobSet.JobsetV1alpha2().JobSets(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return p.arena.core.CoreV1().ConfigMaps(key.Namespace).Delete(ctx, runtimesnapshot.Name(key.Name), metav1.DeleteOptions{})
}

// all plays one act for every job.
func (p *player) all(ctx context.Context, what act, jobs []*trainer.TrainJob) error {
	return p.arena.each(ctx, len(jobs), func(ctx context.Context, i int) error {
		return p.do(ctx, task{cache.MetaObjectToName(jobs[i]), what})
	})
}

// statusAfter is the status of a JobSet after an act. The one job of the benchmark's
// runtimes is called node.
func statusAfter(what act) jobset.JobSetStatus {
	counters := jobset.ReplicatedJobStatus{Name: "node"}
	var status jobset.JobSetStatus
	switch what {
	case begin:
		counters.Active = 1
	case ready:
		counters.Active, counters.Ready = 1, 1
	case succeed:
		counters.Succeeded = 1
		status.TerminalState = string(jobset.JobSetCompleted)
		status.Conditions = []metav1.Condition{{
			Type: string(jobset.JobSetCompleted), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
			Message: "jobset completed successfully", LastTransitionTime: metav1.Now(),
		}}
	}
	status.ReplicatedJobsStatus = []jobset.ReplicatedJobStatus{counters}
	return status
}
