package census

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/metrics"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/trainjob"
)

// maxRuntimes is how many cluster-wide runtimes are told apart, the first by name.
const maxRuntimes = 100

// Values of the label "runtime" that are no names: no object can be called like that.
const (
	// Namespaced stands for every TrainingRuntime: their names are the users' to choose.
	Namespaced = "(namespaced)"
	// Missing stands for the ClusterTrainingRuntimes that do not exist, or no longer.
	Missing = "(missing)"
	// Other stands for kinds that this controller does not know, and for the
	// ClusterTrainingRuntimes after the first hundred.
	Other = "(other)"
)

// Values of the other labels that no object has.
const (
	// StateUnknown is of a job that has not been looked at yet, or has a state that
	// somebody else made up.
	StateUnknown = "Unknown"
	// FrameworkNone is of a runtime without a framework.
	FrameworkNone = "none"
	// FrameworkUnknown is of a runtime that is not there.
	FrameworkUnknown = "unknown"
)

// states are the values of the label "state".
var states = []string{
	string(trainer.TrainJobPending), string(trainer.TrainJobSuspended), string(trainer.TrainJobRunning),
	string(trainer.TrainJobComplete), string(trainer.TrainJobFailed), StateUnknown,
}

// pendingReasons are the values of the label "reason".
var pendingReasons = []string{
	trainer.ReasonWaitingForRuntime, trainer.ReasonRuntimeInvalid, trainer.ReasonSnapshotConflict, trainer.ReasonSnapshotTooLarge,
	trainer.ReasonSnapshotInvalid, trainer.ReasonJobSetConflict, trainer.ReasonCreationFailed, trainer.ReasonWaitingForPods,
	trainer.ReasonExternalRuntime,
}

// Taker takes the census.
type Taker struct {
	Jobs              trainerlisters.TrainJobLister
	ClusterRuntimes   trainerlisters.ClusterTrainingRuntimeLister
	NamespaceRuntimes trainerlisters.TrainingRuntimeLister
	Clock             clock.PassiveClock
}

// Take counts the jobs that are this controller's to run. A runtime that has any job is
// there with all states, so that a count goes to zero and does not vanish. The result is
// nil should the caches not answer.
func (t Taker) Take() *metrics.Census {
	jobs, err := t.Jobs.List(labels.Everything())
	if err != nil {
		return nil
	}
	names, err := t.clusterRuntimes()
	if err != nil {
		return nil
	}
	now := t.Clock.Now()
	census := &metrics.Census{Jobs: map[metrics.Group]int{}, Pending: map[string]metrics.Waiting{}}
	for _, reason := range pendingReasons {
		census.Pending[reason] = metrics.Waiting{}
	}
	for _, job := range jobs {
		if !trainjob.ManagedByUs(job) {
			continue
		}
		group := t.groupOf(job, names)
		if _, met := census.Jobs[group]; !met {
			for _, state := range states {
				g := group
				g.State = state
				census.Jobs[g] += 0
			}
		}
		census.Jobs[group]++
		if job.Status.State == trainer.TrainJobPending {
			wait(census.Pending, job, now)
		}
	}
	return census
}

// clusterRuntimes are the frameworks of the cluster-wide runtimes that are told apart.
func (t Taker) clusterRuntimes() (map[string]string, error) {
	runtimes, err := t.ClusterRuntimes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(runtimes))
	for _, runtime := range runtimes {
		names = append(names, runtime.Name)
	}
	slices.Sort(names)
	names = names[:min(len(names), maxRuntimes)]
	frameworks := make(map[string]string, len(names))
	for _, runtime := range runtimes {
		if _, found := slices.BinarySearch(names, runtime.Name); found {
			frameworks[runtime.Name] = frameworkOf(runtime.Spec.MLPolicy)
		}
	}
	return frameworks, nil
}

// groupOf is what a job is counted as. The framework is that of the runtime as it is
// now: to read every job's snapshot would cost too much at each scrape.
func (t Taker) groupOf(job *trainer.TrainJob, named map[string]string) metrics.Group {
	group := metrics.Group{State: stateOf(job), Runtime: Other, Framework: FrameworkUnknown}
	ref := job.Spec.RuntimeRef
	if ptr.Deref(ref.APIGroup, trainer.GroupName) != trainer.GroupName {
		return group
	}
	switch ptr.Deref(ref.Kind, trainer.ClusterTrainingRuntimeKind) {
	case trainer.ClusterTrainingRuntimeKind:
		if framework, found := named[ref.Name]; found {
			group.Runtime, group.Framework = ref.Name, framework
		} else if runtime, err := t.ClusterRuntimes.Get(ref.Name); err == nil {
			group.Framework = frameworkOf(runtime.Spec.MLPolicy)
		} else {
			group.Runtime = Missing
		}
	case trainer.TrainingRuntimeKind:
		group.Runtime = Namespaced
		if runtime, err := t.NamespaceRuntimes.TrainingRuntimes(job.Namespace).Get(ref.Name); err == nil {
			group.Framework = frameworkOf(runtime.Spec.MLPolicy)
		}
	}
	return group
}

func frameworkOf(policy *trainer.MLPolicy) string {
	if name := framework.Name(policy); name != "" {
		return name
	}
	return FrameworkNone
}

// stateOf is the job's state. A job that finished under a controller without states, as
// Trainer v2.3 is, has none for ever, and its condition tells the end.
func stateOf(job *trainer.TrainJob) string {
	if job.Status.State == "" {
		if end := trainjob.End(job); end != "" {
			return string(end)
		}
	}
	if state := string(job.Status.State); slices.Contains(states, state) {
		return state
	}
	return StateUnknown
}

// wait adds a Pending job to those that wait for the same reason.
func wait(pending map[string]metrics.Waiting, job *trainer.TrainJob, now time.Time) {
	waiting, known := pending[job.Status.Reason]
	if !known {
		return // written by somebody else, or by an earlier build and not synced yet
	}
	waiting.Jobs++
	if since := job.Status.LastTransitionTime; since != nil {
		waiting.Longest = max(waiting.Longest, now.Sub(since.Time))
	}
	pending[job.Status.Reason] = waiting
}
