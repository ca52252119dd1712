package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	jobsetlisters "sigs.k8s.io/jobset/client-go/listers/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// Config is what the controller works with.
type Config struct {
	TrainJobs  trainerclient.TrainJobsGetter
	ConfigMaps corev1client.ConfigMapsGetter
	// Informers. That of ConfigMaps is restricted to those with our label.
	Informers trainerinformers.Interface
	Snapshots cache.SharedIndexInformer
	JobSets   jobsetlisters.JobSetLister
	// OpaqueKinds are the kinds of runtimes that are left to builders of their own; how
	// they are served, and where they are read. With no kinds, nothing is.
	OpaqueKinds    sets.Set[schema.GroupKind]
	Discovery      discovery.DiscoveryInterfaceWithContext
	OpaqueRuntimes dynamic.Interface
	Recorder       record.EventRecorder
	Clock          clock.WithTicker
	Metrics        *metrics.Metrics
	// DeadlineFrom is what deadlines count from, the same for all controllers.
	DeadlineFrom trainjob.DeadlineFrom
}

// Controller takes snapshots.
type Controller struct {
	trainJobs  trainerclient.TrainJobsGetter
	configMaps corev1client.ConfigMapsGetter
	jobs       trainerlisters.TrainJobLister
	jobIndex   cache.Indexer
	runtimes   runtimeReader
	opaque     *opaqueReader
	snapshots  corelisters.ConfigMapLister
	jobSets    jobsetlisters.JobSetLister
	status     *operations.StatusWriter
	recorder   record.EventRecorder
	clock      clock.WithTicker
	metrics    *metrics.Metrics

	deadlineFrom trainjob.DeadlineFrom
	// created bridges the moment between our CREATE and the cache showing it.
	created *informer.Notes[*corev1.ConfigMap]
	queue   *queue.Queue
	// handlers of the events that wake a job, by their source.
	handlers map[cache.SharedIndexInformer]func(any)
}

// New returns a controller that does nothing before Run. The informers must not have
// been started.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		trainJobs:  cfg.TrainJobs,
		configMaps: cfg.ConfigMaps,
		jobs:       cfg.Informers.TrainJobs().Lister(),
		jobIndex:   cfg.Informers.TrainJobs().Informer().GetIndexer(),
		runtimes: runtimeReader{
			cluster:    cfg.Informers.ClusterTrainingRuntimes().Lister(),
			namespaced: cfg.Informers.TrainingRuntimes().Lister(),
			encoder:    runtimesnapshot.NewEncoder(),
		},
		opaque: &opaqueReader{
			kinds: cfg.OpaqueKinds, finder: newKindFinder(cfg.Discovery, cfg.OpaqueKinds), client: cfg.OpaqueRuntimes,
		},
		snapshots: corelisters.NewConfigMapLister(cfg.Snapshots.GetIndexer()),
		jobSets:   cfg.JobSets,
		status:    operations.NewStatusWriter(cfg.TrainJobs, cfg.Recorder).Measuring(cfg.Metrics),
		recorder:  cfg.Recorder, clock: cfg.Clock, metrics: cfg.Metrics,
		deadlineFrom: cfg.DeadlineFrom,
		created:      informer.NewNotes[*corev1.ConfigMap](cfg.Clock),
	}
	var err error
	c.queue, err = queue.New(queue.Config{Name: metrics.QueueSnapshot, Sync: c.sync, Clock: cfg.Clock, Metrics: cfg.Metrics})
	if err != nil {
		return nil, err
	}
	if err := cfg.Informers.TrainJobs().Informer().AddIndexers(cache.Indexers{byRuntime: indexByRuntime}); err != nil {
		return nil, fmt.Errorf("index TrainJobs by runtime: %w", err)
	}
	c.handlers = map[cache.SharedIndexInformer]func(any){
		cfg.Informers.TrainJobs().Informer():               c.enqueue,
		cfg.Informers.ClusterTrainingRuntimes().Informer(): c.enqueueUsersOf(trainer.ClusterTrainingRuntimeKind),
		cfg.Informers.TrainingRuntimes().Informer():        c.enqueueUsersOf(trainer.TrainingRuntimeKind),
		cfg.Snapshots: c.enqueueOwnerOf,
	}
	return c, nil
}

// Queues of this controller, for health checks.
func (c *Controller) Queues() []*queue.Queue { return []*queue.Queue{c.queue} }

// Run works until ctx ends. Only then are events listened to, beginning with all that
// the informers hold: the queue of a replica that waits would only ever grow.
func (c *Controller) Run(ctx context.Context, workers int) {
	if err := informer.AddHandlers(c.handlers); err != nil {
		klog.FromContext(ctx).Error(err, "The snapshot controller cannot listen") // the informers have been stopped
		return
	}
	c.queue.Run(ctx, workers)
}

func (c *Controller) enqueue(object any) {
	if key, ok := informer.Key(object); ok {
		c.queue.Add(key)
	}
}

// enqueueOwnerOf handles events of ConfigMaps. The job is found by the name of the
// ConfigMap, so that it also hears of one that is in its way and belongs to others.
func (c *Controller) enqueueOwnerOf(object any) {
	key, ok := informer.Key(object)
	if !ok {
		return
	}
	name, ok := runtimesnapshot.JobName(key.Name)
	if !ok {
		return
	}
	owner := cache.ObjectName{Namespace: key.Namespace, Name: name}
	c.created.Observe(owner, object)
	c.queue.Add(owner)
}

// enqueueUsersOf handles events of runtimes of a kind: the jobs that still need one
// look again. Jobs that have their snapshot are not woken, however often a runtime
// is edited.
func (c *Controller) enqueueUsersOf(kind string) func(any) {
	return func(object any) {
		runtime, ok := informer.Key(object)
		if !ok {
			return
		}
		jobs, err := c.jobIndex.ByIndex(byRuntime, runtimeIndexKey(kind, runtime.Namespace, runtime.Name))
		if err != nil {
			return // only if the index did not exist, which New has ensured
		}
		for _, job := range jobs {
			key, ok := informer.Key(job)
			if !ok {
				continue
			}
			if cm, err := c.snapshots.ConfigMaps(key.Namespace).Get(runtimesnapshot.Name(key.Name)); err == nil &&
				trainjob.OwnershipOf(job.(*trainer.TrainJob), cm) == trainjob.Ours {
				continue
			}
			c.queue.Add(key)
		}
	}
}
