package snapshot

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

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
	switch kind := kindOf(job); kind {
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

// kindOf is the kind of the job's runtime, "" for one of another API group. The CRD
// fills in both fields; objects from before that, or written past it, may lack them.
func kindOf(job *trainer.TrainJob) string {
	if ptr.Deref(job.Spec.RuntimeRef.APIGroup, trainer.GroupName) != trainer.GroupName {
		return ""
	}
	return ptr.Deref(job.Spec.RuntimeRef.Kind, trainer.ClusterTrainingRuntimeKind)
}

// runtimeReader finds runtimes of the two kinds this controller understands.
type runtimeReader struct {
	cluster    trainerlisters.ClusterTrainingRuntimeLister
	namespaced trainerlisters.TrainingRuntimeLister
	encoder    *runtimesnapshot.Encoder
}

// errNotSupported says that a job's runtime is of a kind nobody here understands.
var errNotSupported = errors.New("runtime kind not supported")

// read returns the runtime of a job, nil if it does not exist. The error is
// errNotSupported for a kind it does not know. The result is shared with the cache.
func (r runtimeReader) read(job *trainer.TrainJob) (*runtimesnapshot.Runtime, error) {
	name := job.Spec.RuntimeRef.Name
	switch kindOf(job) {
	case trainer.ClusterTrainingRuntimeKind:
		runtime, err := r.cluster.Get(name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return r.encoder.Prepare(runtime, runtimesnapshot.FromClusterTrainingRuntime(runtime)), nil
	case trainer.TrainingRuntimeKind:
		runtime, err := r.namespaced.TrainingRuntimes(job.Namespace).Get(name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return r.encoder.Prepare(runtime, runtimesnapshot.FromTrainingRuntime(runtime)), nil
	}
	return nil, errNotSupported
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// describe names a job's runtime for a message.
func describe(job *trainer.TrainJob) string {
	ref := job.Spec.RuntimeRef
	group := ptr.Deref(ref.APIGroup, trainer.GroupName)
	kind := ptr.Deref(ref.Kind, trainer.ClusterTrainingRuntimeKind)
	if kind == trainer.TrainingRuntimeKind && group == trainer.GroupName {
		return fmt.Sprintf("%s %q in namespace %q", kind, ref.Name, job.Namespace)
	}
	if group != trainer.GroupName {
		return fmt.Sprintf("%s.%s %q", kind, group, ref.Name)
	}
	return fmt.Sprintf("%s %q", kind, ref.Name)
}
