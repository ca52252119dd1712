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
	jobSets  cache.SharedIndexInformer
	stop     func()
	running  sync.WaitGroup

	made  map[cache.ObjectName]parts
	queue chan *trainer.TrainJob
	// life, when set, takes what was built to its end.
	life *lives

	mu   sync.Mutex
	errs []error
}

// parts of a job that are made in advance. Only the owner's UID is missing.
type parts struct {
	snapshot *corev1.ConfigMap
	jobSet   *jobset.JobSet
	nodes    int32
}

// plain starts the watches and makes the clients. With a TTL they follow what they have
// built, and delete it so long after its end.
func (a *arena) plain(ctx context.Context, ttl time.Duration) (*plain, error) {
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
	p.stop = func() { cancel(); broadcaster.Shutdown(); p.running.Wait() }
	err = p.watch(ctx)
	if err == nil && ttl > 0 {
		err = p.follow(ctx, ttl)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	p.running.Go(func() { p.run(ctx) })
	return p, nil
}

// watch opens the watches that a controller has open, with the same caches behind them.
func (p *plain) watch(ctx context.Context) error {
	configs, err := informer.ConfigMaps(p.core, clock.RealClock{}, trainer.LabelTrainJobName, trainjob.Kind)
	if err != nil {
		return err
	}
	api := trainerinformers.NewSharedInformerFactory(p.trainer, 0).Trainer().V1alpha1()
	p.jobSets = jobsetinformers.NewSharedInformerFactory(p.jobSet, 0).Jobset().V1alpha2().JobSets().Informer()
	var synced []cache.InformerSynced
	for _, i := range []cache.SharedIndexInformer{
		configs, p.jobSets, api.TrainJobs().Informer(), api.TrainingRuntimes().Informer(), api.ClusterTrainingRuntimes().Informer(),
	} {
		p.running.Go(func() { i.RunWithContext(ctx) })
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
	job, err = p.status(ctx, job, trainjob.Observed{JobSet: js, Snapshot: runtimesnapshot.Reference(cm), Nodes: &parts.nodes})
	if err == nil && p.life != nil {
		p.life.built(job)
	}
	return err
}

// status writes the status that a job has after what was observed, and returns the job
// with it.
func (p *plain) status(ctx context.Context, job *trainer.TrainJob, seen trainjob.Observed) (*trainer.TrainJob, error) {
	patch, err := trainjob.StatusPatch(job, trainjob.Next(job, seen, time.Now()))
	if err != nil || patch == nil {
		return job, err
	}
	job, err = p.trainer.TrainerV1alpha1().TrainJobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	return job, nil
}

// fail ends a job at its deadline.
func (p *plain) fail(ctx context.Context, job *trainer.TrainJob) error {
	_, err := p.status(ctx, job, trainjob.Observed{Failure: &trainjob.Cause{Reason: trainer.ReasonDeadlineExceeded, Message: "the job was not finished in time"}})
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
					p.failed(ctx, p.build(ctx, job))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	busy.Wait()
}

// failed keeps what went wrong before the end.
func (p *plain) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
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
