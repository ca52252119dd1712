package snapshot

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// byRuntime is the name of the index from a runtime to the unfinished TrainJobs that
// refer to it.
const byRuntime = "byRuntime"

func indexByRuntime(object any) ([]string, error) {
	job, ok := object.(*trainer.TrainJob)
	if !ok || trainjob.Finished(job) || !trainjob.ManagedByUs(job) {
		return nil, nil
	}
	if trainjob.External(job) {
		return nil, nil
	}
	switch kind := trainjob.RuntimeKind(job).Kind; kind {
	case trainer.ClusterTrainingRuntimeKind:
		return []string{runtimeIndexKey(kind, "", job.Spec.RuntimeRef.Name)}, nil
	case trainer.TrainingRuntimeKind:
		return []string{runtimeIndexKey(kind, job.Namespace, job.Spec.RuntimeRef.Name)}, nil
	}
	return nil, nil
}

func runtimeIndexKey(kind, namespace, name string) string {
	return kind + "/" + namespace + "/" + name
}

// runtimeReader finds runtimes of the two kinds this controller understands.
type runtimeReader struct {
	cluster    trainerlisters.ClusterTrainingRuntimeLister
	namespaced trainerlisters.TrainingRuntimeLister
	encoder    *runtimesnapshot.Encoder
}

// read returns the runtime of a job of either kind, nil if it does not exist. The result
// is shared with the cache.
func (r runtimeReader) read(job *trainer.TrainJob) (*runtimesnapshot.Runtime, error) {
	name := job.Spec.RuntimeRef.Name
	if trainjob.RuntimeKind(job).Kind == trainer.TrainingRuntimeKind {
		runtime, err := r.namespaced.TrainingRuntimes(job.Namespace).Get(name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return r.encoder.Prepare(runtime, runtimesnapshot.FromTrainingRuntime(runtime)), nil
	}
	runtime, err := r.cluster.Get(name)
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	return r.encoder.Prepare(runtime, runtimesnapshot.FromClusterTrainingRuntime(runtime)), nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// describe names a job's runtime for a message.
func describe(job *trainer.TrainJob) string {
	kind, name := trainjob.RuntimeKind(job), job.Spec.RuntimeRef.Name
	switch {
	case kind.Group != trainer.GroupName:
		return fmt.Sprintf("%s %q", kind, name)
	case kind.Kind == trainer.TrainingRuntimeKind:
		return fmt.Sprintf("%s %q in namespace %q", kind.Kind, name, job.Namespace)
	}
	return fmt.Sprintf("%s %q", kind.Kind, name)
}
