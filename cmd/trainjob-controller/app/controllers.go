package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	jobsetinformers "sigs.k8s.io/jobset/client-go/informers/externalversions"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerinformers "github.com/trainjob/controller/generated/informers/externalversions"
	"github.com/trainjob/controller/pkg/controller/jobset"
	"github.com/trainjob/controller/pkg/controller/lifecycle"
	"github.com/trainjob/controller/pkg/controller/preflight"
	"github.com/trainjob/controller/pkg/controller/snapshot"
	"github.com/trainjob/controller/pkg/informer"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/queue"
	"github.com/trainjob/controller/pkg/trainjob"
)

// watches are the informers, which run on every replica.
type watches struct {
	trainer trainerinformers.SharedInformerFactory
	jobSets jobsetinformers.SharedInformerFactory
	configs cache.SharedIndexInformer
	all     []watch
}

// watch is an informer and what it watches.
type watch struct {
	cache.SharedIndexInformer
	resource string
}

// newWatches makes the informers and says what they leave out of memory. Nothing
// resyncs: events alone must be enough.
func newWatches(c *clients, now clock.PassiveClock) (*watches, error) {
	w := &watches{
		trainer: trainerinformers.NewSharedInformerFactory(c.trainer, 0),
		jobSets: jobsetinformers.NewSharedInformerFactory(c.jobSet, 0),
	}
	var err error
	if w.configs, err = informer.ConfigMaps(c.core, now, trainer.LabelTrainJobName, trainjob.Kind); err != nil {
		return nil, err
	}
	api := w.trainer.Trainer().V1alpha1()
	own := []watch{
		{api.TrainJobs().Informer(), "trainjobs"},
		{api.TrainingRuntimes().Informer(), "trainingruntimes"},
		{api.ClusterTrainingRuntimes().Informer(), "clustertrainingruntimes"},
	}
	jobSets := w.jobSets.Jobset().V1alpha2().JobSets().Informer()
	errs := []error{informer.Prepare(jobSets, now, informer.Strip, informer.TrimJobSet(trainjob.Kind))}
	for _, i := range own {
		errs = append(errs, informer.Prepare(i, now, informer.Strip))
	}
	w.all = append(own, watch{jobSets, "jobsets"}, watch{w.configs, "configmaps"})
	return w, errors.Join(errs...)
}

// run starts the informers and returns when ctx has ended and they have stopped.
func (w *watches) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, i := range w.all {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	running.Wait()
}

// waiting lists what has not had its first list yet. A kind whose CRD is missing
// stays in it.
func (w *watches) waiting() []string {
	var resources []string
	for _, i := range w.all {
		if !i.HasSynced() {
			resources = append(resources, i.resource)
		}
	}
	return resources
}

// controller is what they have in common.
type controller interface {
	Run(ctx context.Context, workers int)
	Queues() []*queue.Queue
}

// staffed is a controller and its number of workers on each queue.
type staffed struct {
	controller
	workers int
}

func newControllers(c *clients, w *watches, recorder record.EventRecorder, m *metrics.Metrics, o *Options) ([]staffed, error) {
	api := w.trainer.Trainer().V1alpha1()
	jobSets := w.jobSets.Jobset().V1alpha2().JobSets()
	now := clock.RealClock{}
	from := trainjob.DeadlineFrom(o.ActiveDeadlineFrom)
	snapshots, err := snapshot.New(snapshot.Config{
		TrainJobs: c.trainer.TrainerV1alpha1(), ConfigMaps: c.core.CoreV1(),
		Informers: api, Snapshots: w.configs, JobSets: jobSets.Lister(),
		OpaqueKinds: o.opaqueKinds(), Discovery: discovery.ToDiscoveryInterfaceWithContext(c.core.Discovery()), OpaqueRuntimes: c.dynamic,
		Recorder: recorder, Clock: now, Metrics: m, DeadlineFrom: from,
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot controller: %w", err)
	}
	builder, err := jobset.New(jobset.Config{
		TrainJobs: c.trainer.TrainerV1alpha1(), JobSets: c.jobSet.JobsetV1alpha2(), Jobs: c.core.BatchV1(),
		ConfigMaps: c.core.CoreV1(), Secrets: c.core.CoreV1(), PodGroups: c.dynamic,
		TrainJobInformer: api.TrainJobs(), JobSetInformer: jobSets, Snapshots: w.configs,
		Recorder: recorder, Clock: now, Metrics: m, DeadlineFrom: from,
	})
	if err != nil {
		return nil, fmt.Errorf("jobset controller: %w", err)
	}
	timers, err := lifecycle.New(lifecycle.Config{
		Client: c.trainer.TrainerV1alpha1(), Jobs: api.TrainJobs(), JobSets: c.jobSet.JobsetV1alpha2(),
		Recorder: recorder, Clock: now, Metrics: m, DeadlineFrom: from,
	})
	if err != nil {
		return nil, fmt.Errorf("lifecycle controller: %w", err)
	}
	checks, err := newPreflight(c, w, recorder, m, o)
	if err != nil {
		return nil, fmt.Errorf("preflight controller: %w", err)
	}
	return []staffed{{snapshots, int(o.SnapshotSyncs)}, {builder, int(o.JobSetSyncs)}, {timers, int(o.LifecycleSyncs)}, {checks, preflightSyncs}}, nil
}

// preflightSyncs is how many jobs' reports are lifted at a time: one write each, and rarely.
const preflightSyncs = 5

func newPreflight(c *clients, w *watches, recorder record.EventRecorder, m *metrics.Metrics, o *Options) (*preflight.Controller, error) {
	now := clock.RealClock{}
	pods, err := informer.Pods(c.core, now, trainer.LabelPreflight, trainer.ContainerPreflight)
	if err != nil {
		return nil, err
	}
	return preflight.New(preflight.Config{
		Client: c.trainer.TrainerV1alpha1(), Jobs: w.trainer.Trainer().V1alpha1().TrainJobs(), JobSets: w.jobSets.Jobset().V1alpha2().JobSets(),
		Pods: pods, Nodes: c.core.CoreV1(), Recorder: recorder, Clock: now, Metrics: m, Quarantine: o.PreflightQuarantine,
	})
}

// runControllers works until ctx has ended and every queue is drained.
func runControllers(ctx context.Context, controllers []staffed) {
	var running sync.WaitGroup
	for _, c := range controllers {
		running.Go(func() { c.Run(ctx, c.workers) })
	}
	running.Wait()
}
