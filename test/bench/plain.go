package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetversioned "sigs.k8s.io/jobset/client-go/clientset/versioned"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/generated/clientset/versioned"
	"github.com/trainjob/controller/generated/clientset/versioned/scheme"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

const limitUser = "bench-limit"

// queued TrainJobs never hold up those who create more.
const queued = 100_000

// plain writes what a controller would write, as fast as the API server takes it, with
// clients of the same limits and the same watches open. It decides nothing: what it
// writes was made before.
type plain struct {
	arena    *arena
	core     kubernetes.Interface
	trainer  versioned.Interface
	jobSet   jobsetversioned.Interface
	recorder record.EventRecorder
	stop     func()

	made  map[cache.ObjectName]parts
	queue chan *trainer.TrainJob

	mu   sync.Mutex
	errs []error
}

// parts of a job that are made in advance. Only the owner's UID is missing.
type parts struct {
	snapshot *corev1.ConfigMap
	jobSet   *jobset.JobSet
	nodes    int32
}

// plain starts the watches and makes the clients.
func (a *arena) plain(ctx context.Context) (*plain, error) {
	o := a.bench.options
	config, err := a.cluster.RESTConfigFor(limitUser, "system:masters")
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(o.qps), o.apiBurst
	events := *config
	events.QPS, events.Burst = 30, 100
	inProtobuf := *config
	inProtobuf.ContentType = runtime.ContentTypeProtobuf
	p := &plain{arena: a, made: map[cache.ObjectName]parts{}, queue: make(chan *trainer.TrainJob, queued)}
	var errs [4]error
	var eventClient kubernetes.Interface
	p.core, errs[0] = kubernetes.NewForConfig(&inProtobuf)
	p.trainer, errs[1] = versioned.NewForConfig(config)
	p.jobSet, errs[2] = jobsetversioned.NewForConfig(config)
	eventClient, errs[3] = kubernetes.NewForConfig(&events)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: eventClient.CoreV1().Events("")})
	p.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: limitUser})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	p.stop = func() { cancel(); broadcaster.Shutdown(); running.Wait() }
	if err := p.watch(ctx, &running); err != nil {
		p.stop()
		return nil, err
	}
	running.Go(func() { p.run(ctx) })
	return p, nil
}

// watch opens the watches that a controller has open, with the same caches behind them.
func (p *plain) watch(ctx context.Context, running *sync.WaitGroup) error {
	configs, err := informer.ConfigMaps(p.core, clock.RealClock{}, trainer.LabelTrainJobName)
	if err != nil {
		return err
	}
	api := trainerinformers.NewSharedInformerFactory(p.trainer, 0).Trainer().V1alpha1()
	jobSets := jobsetinformers.NewSharedInformerFactory(p.jobSet, 0).Jobset().V1alpha2().JobSets().Informer()
	var synced []cache.InformerSynced
	for _, i := range []cache.SharedIndexInformer{
		configs, jobSets, api.TrainJobs().Informer(), api.TrainingRuntimes().Informer(), api.ClusterTrainingRuntimes().Informer(),
	} {
		running.Go(func() { i.RunWithContext(ctx) })
		synced = append(synced, i.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("the plain client's watches do not start")
	}
	return nil
}

// prepare makes the objects of jobs in advance.
func (p *plain) prepare(jobs []*trainer.TrainJob) error {
	for _, job := range jobs {
		frozen := runtimesnapshot.FromClusterTrainingRuntime(runtimeOf(job.Spec.RuntimeRef.Name))
		cm, err := runtimesnapshot.Encode(job, frozen)
		if err != nil {
			return err
		}
		objects, err := render.Render(job, render.FromSnapshot(frozen))
		if err != nil {
			return err
		}
		p.made[cache.MetaObjectToName(job)] = parts{snapshot: cm, jobSet: objects.JobSet, nodes: objects.Nodes}
	}
	return nil
}

// build writes a job's snapshot, JobSet and status, and tells of it.
func (p *plain) build(ctx context.Context, job *trainer.TrainJob) error {
	parts := p.made[cache.MetaObjectToName(job)]
	parts.snapshot.OwnerReferences[0].UID, parts.jobSet.OwnerReferences[0].UID = job.UID, job.UID
	cm, err := p.core.CoreV1().ConfigMaps(job.Namespace).Create(ctx, parts.snapshot, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	p.recorder.Event(job, corev1.EventTypeNormal, "SnapshotCreated", "Took the snapshot")
	js, err := p.jobSet.JobsetV1alpha2().JobSets(job.Namespace).Create(ctx, parts.jobSet, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create JobSet: %w", err)
	}
	p.recorder.Event(job, corev1.EventTypeNormal, "JobSetCreated", "Created the JobSet")
	return p.status(ctx, job, trainjob.Observed{JobSet: js, Snapshot: runtimesnapshot.Reference(cm), Nodes: &parts.nodes})
}

// status writes the status that a job has after what was observed.
func (p *plain) status(ctx context.Context, job *trainer.TrainJob, seen trainjob.Observed) error {
	patch, err := trainjob.StatusPatch(job, trainjob.Next(job, seen, time.Now()))
	if err != nil {
		return err
	}
	if _, err = p.trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// fail ends a job at its deadline.
func (p *plain) fail(ctx context.Context, job *trainer.TrainJob) error {
	err := p.status(ctx, job, trainjob.Observed{Failure: &trainjob.Cause{Reason: trainer.ReasonDeadlineExceeded, Message: "the job was not finished in time"}})
	if err == nil {
		p.recorder.Event(job, corev1.EventTypeWarning, trainer.ReasonDeadlineExceeded, "the job was not finished in time")
	}
	return err
}

// remove deletes a job exactly as it was read.
func (p *plain) remove(ctx context.Context, job *trainer.TrainJob) error {
	err := p.trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err == nil {
		p.recorder.Event(job, corev1.EventTypeNormal, "TTLExpired", "Deleted")
	}
	return err
}

// run builds what it is given until ctx ends, with as many clients as there are.
func (p *plain) run(ctx context.Context) {
	var busy sync.WaitGroup
	for range p.arena.bench.options.clients {
		busy.Go(func() {
			for {
				select {
				case job := <-p.queue:
					if err := p.build(ctx, job); err != nil && ctx.Err() == nil {
						p.mu.Lock()
						p.errs = append(p.errs, err)
						p.mu.Unlock()
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	busy.Wait()
}

// take gives it a job to build.
func (p *plain) take(job *trainer.TrainJob) { p.queue <- job }

// trouble is the first thing that could not be written.
func (p *plain) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) > 0 {
		return p.errs[0]
	}
	return nil
}
