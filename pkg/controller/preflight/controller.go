package preflight

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions/jobset/v1alpha2"
	jobsetlisters "sigs.k8s.io/jobset/client-go/listers/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/queue"
)

// Config is what the controller works with.
type Config struct {
	Client  trainerclient.TrainJobsGetter
	Jobs    trainerinformers.TrainJobInformer
	JobSets jobsetinformers.JobSetInformer
	// Pods of jobs with preflight. It is run by this controller, once there is one, and
	// indexed by namespace.
	Pods     cache.SharedIndexInformer
	Nodes    corev1client.NodesGetter
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	Metrics  *metrics.Metrics
	// Quarantine is how long a node at fault is marked; 0 marks none.
	Quarantine time.Duration
}

// Controller lifts the reports of preflight to the jobs.
type Controller struct {
	jobs     trainerlisters.TrainJobLister
	jobSets  jobsetlisters.JobSetLister
	pods     cache.SharedIndexInformer
	status   *operations.StatusWriter
	recorder record.EventRecorder
	clock    clock.WithTicker
	queue    *queue.Queue
	events   *told
	wards    *quarantine // nil if none is marked

	jobSetInformer cache.SharedIndexInformer
	// needed is closed when the first JobSet with preflight is seen.
	needed chan struct{}
	once   sync.Once
}

// New returns a controller that does nothing before Run.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		jobs: cfg.Jobs.Lister(), jobSets: cfg.JobSets.Lister(), pods: cfg.Pods, jobSetInformer: cfg.JobSets.Informer(),
		status:   operations.NewStatusWriter(cfg.Client, cfg.Recorder).Measuring(cfg.Metrics),
		recorder: cfg.Recorder, clock: cfg.Clock, events: newTold(), needed: make(chan struct{}),
	}
	if cfg.Quarantine > 0 {
		c.wards = &quarantine{nodes: cfg.Nodes.Nodes(), clock: cfg.Clock, period: cfg.Quarantine}
	}
	var err error
	if err = c.pods.AddIndexers(cache.Indexers{byJob: indexByJob}); err != nil {
		return nil, err
	}
	c.queue, err = queue.New(queue.Config{Name: metrics.QueuePreflight, Sync: c.sync, Clock: cfg.Clock, Metrics: cfg.Metrics})
	return c, err
}

// byJob indexes pods by the job whose name their JobSet has.
const byJob = "job"

func indexByJob(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Labels[jobset.JobSetNameKey] == "" {
		return nil, nil
	}
	return []string{cache.NewObjectName(pod.Namespace, pod.Labels[jobset.JobSetNameKey]).String()}, nil
}

// Queues of this controller, for health checks.
func (c *Controller) Queues() []*queue.Queue { return []*queue.Queue{c.queue} }

// Run works until ctx ends, with that many workers. Pods are watched from the moment that
// there is a JobSet with preflight.
func (c *Controller) Run(ctx context.Context, workers int) {
	err := informer.AddHandlers(map[cache.SharedIndexInformer]func(any){c.jobSetInformer: c.enqueueJobSet, c.pods: c.enqueuePod})
	if err != nil {
		klog.FromContext(ctx).Error(err, "The preflight controller cannot listen") // the informers have been stopped
		return
	}
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-ctx.Done():
		case <-c.needed:
			c.pods.RunWithContext(ctx)
		}
	})
	if c.wards != nil {
		running.Go(func() { c.wards.release(ctx) })
	}
	running.Go(func() { c.queue.Run(ctx, workers) })
	running.Wait()
}

func (c *Controller) enqueueJobSet(object any) {
	js, ok := informer.Object(object).(*jobset.JobSet)
	if !ok || js.Labels[trainer.LabelPreflight] == "" {
		return
	}
	c.once.Do(func() { close(c.needed) })
	c.queue.Add(cache.NewObjectName(js.Namespace, js.Name))
}

func (c *Controller) enqueuePod(object any) {
	pod, ok := informer.Object(object).(*corev1.Pod)
	if !ok || pod.Labels[jobset.JobSetNameKey] == "" {
		return
	}
	c.queue.Add(cache.NewObjectName(pod.Namespace, pod.Labels[jobset.JobSetNameKey]))
}
