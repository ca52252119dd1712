package jobset

import (
	"context"

	"k8s.io/client-go/dynamic"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned/typed/jobset/v1alpha2"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions/jobset/v1alpha2"
	jobsetlisters "sigs.k8s.io/jobset/client-go/listers/jobset/v1alpha2"

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
	TrainJobs trainerclient.TrainJobsGetter
	JobSets   jobsetclient.JobSetsGetter
	Jobs      batchclient.JobsGetter
	// What a JobSet may need beside it. PodGroups are of either gang scheduler.
	ConfigMaps corev1client.ConfigMapsGetter
	Secrets    corev1client.SecretsGetter
	PodGroups  dynamic.Interface
	// Informers. That of ConfigMaps is restricted to those with our label; that of
	// JobSets may strip them to metadata, spec.suspend and status.
	TrainJobInformer trainerinformers.TrainJobInformer
	JobSetInformer   jobsetinformers.JobSetInformer
	Snapshots        cache.SharedIndexInformer
	Recorder         record.EventRecorder
	Clock            clock.WithTicker
	Metrics          *metrics.Metrics
	// DeadlineFrom is what deadlines count from, the same for all controllers.
	DeadlineFrom trainjob.DeadlineFrom
}

// Controller builds and follows JobSets.
type Controller struct {
	trainJobs trainerclient.TrainJobsGetter
	writer    jobSetWriter
	helpers   helperWriter
	jobs      trainerlisters.TrainJobLister
	jobSets   jobsetlisters.JobSetLister
	snapshots corelisters.ConfigMapLister
	status    *operations.StatusWriter
	recorder  record.EventRecorder
	clock     clock.WithTicker
	metrics   *metrics.Metrics

	deadlineFrom trainjob.DeadlineFrom
	// created bridges the moment between our CREATE and the cache showing it.
	created *informer.Notes[*jobset.JobSet]
	warned  warnings
	decoder *runtimesnapshot.Decoder
	// deletions of ended jobs' JobSets.
	deletions turns
	queue     *queue.Queue
	// handlers of the events that wake a job, by their source.
	handlers map[cache.SharedIndexInformer]func(any)
}

// New returns a controller that does nothing before Run.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		trainJobs: cfg.TrainJobs,
		writer:    jobSetWriter{jobSets: cfg.JobSets, jobs: cfg.Jobs},
		helpers: helperWriter{
			configMaps: cfg.ConfigMaps, labelled: corelisters.NewConfigMapLister(cfg.Snapshots.GetIndexer()),
			secrets: cfg.Secrets, podGroups: cfg.PodGroups, clock: cfg.Clock,
		},
		jobs:      cfg.TrainJobInformer.Lister(),
		jobSets:   cfg.JobSetInformer.Lister(),
		snapshots: corelisters.NewConfigMapLister(cfg.Snapshots.GetIndexer()),
		status:    operations.NewStatusWriter(cfg.TrainJobs, cfg.Recorder).Measuring(cfg.Metrics),
		recorder:  cfg.Recorder, clock: cfg.Clock, metrics: cfg.Metrics,
		deadlineFrom: cfg.DeadlineFrom,
		created:      informer.NewNotes[*jobset.JobSet](cfg.Clock),
		decoder:      runtimesnapshot.NewDecoder(),
	}
	var err error
	c.queue, err = queue.New(queue.Config{
		Name: metrics.QueueJobSet, Sync: c.sync, Background: c.ended, Clock: cfg.Clock, Metrics: cfg.Metrics,
	})
	if err != nil {
		return nil, err
	}
	c.handlers = map[cache.SharedIndexInformer]func(any){
		cfg.TrainJobInformer.Informer(): c.enqueue,
		cfg.JobSetInformer.Informer():   c.enqueueJobOfJobSet,
		cfg.Snapshots:                   c.enqueueJobOfSnapshot,
	}
	return c, nil
}

// Queues of this controller, for health checks.
func (c *Controller) Queues() []*queue.Queue { return []*queue.Queue{c.queue} }

// Run works until ctx ends. Only then are events listened to, beginning with all that
// the informers hold: the queue of a replica that waits would only ever grow.
func (c *Controller) Run(ctx context.Context, workers int) {
	if err := informer.AddHandlers(c.handlers); err != nil {
		klog.FromContext(ctx).Error(err, "The jobset controller cannot listen") // the informers have been stopped
		return
	}
	c.queue.Run(ctx, workers)
}

// ended says whether a job has nothing left but to be tidied up after: thousands may end
// in the same second, and new jobs must not wait for them.
func (c *Controller) ended(key cache.ObjectName) bool {
	job, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name)
	return err != nil || trainjob.Finished(job)
}

func (c *Controller) enqueue(object any) {
	if key, ok := informer.Key(object); ok {
		c.queue.Add(key)
	}
}

// enqueueJobOfJobSet handles events of JobSets. A JobSet has the name of its
// TrainJob, so its own key is the job's; that also wakes a job whose name was taken
// by somebody else's JobSet. JobSets that no TrainJob is named like are ignored.
func (c *Controller) enqueueJobOfJobSet(object any) {
	key, ok := informer.Key(object)
	if !ok {
		return
	}
	c.created.Observe(key, object)
	if _, owned := informer.OwnerKey(object, trainjob.Kind); !owned {
		if _, err := c.jobs.TrainJobs(key.Namespace).Get(key.Name); err != nil {
			return
		}
	}
	c.queue.Add(key)
}

// enqueueJobOfSnapshot handles events of ConfigMaps, found by name like JobSets.
func (c *Controller) enqueueJobOfSnapshot(object any) {
	key, ok := informer.Key(object)
	if !ok {
		return
	}
	if name, ok := runtimesnapshot.JobName(key.Name); ok {
		c.queue.Add(cache.ObjectName{Namespace: key.Namespace, Name: name})
	}
}
