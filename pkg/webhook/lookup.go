package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	trainerlisters "github.com/trainjob/controller/generated/listers/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// liveTimeout is how long a read from the API server may take. The API server itself
// waits five seconds for the review.
const liveTimeout = 3 * time.Second

// Sources are where runtimes and snapshots are read, from caches and from the API
// server.
type Sources struct {
	ClusterRuntimes trainerlisters.ClusterTrainingRuntimeLister
	Runtimes        trainerlisters.TrainingRuntimeLister
	// Snapshots are the ConfigMaps with our label.
	Snapshots corelisters.ConfigMapLister

	Live           trainerclient.TrainerV1alpha1Interface
	LiveConfigMaps corev1client.ConfigMapsGetter
}

// found is a runtime, nil if there is none, and which version of which object holds it.
type found struct {
	runtime *runtimesnapshot.Runtime
	version string
}

// cachedRuntime is the job's runtime as the cache has it.
func (s Sources) cachedRuntime(job *trainer.TrainJob) (found, error) {
	name := job.Spec.RuntimeRef.Name
	if trainjob.RuntimeKind(job) == trainer.Kind(trainer.TrainingRuntimeKind) {
		return namespaced(s.Runtimes.TrainingRuntimes(job.Namespace).Get(name))
	}
	return clusterWide(s.ClusterRuntimes.Get(name))
}

// liveRuntime is the job's runtime as the API server has it.
func (s Sources) liveRuntime(ctx context.Context, job *trainer.TrainJob) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	name := job.Spec.RuntimeRef.Name
	if name == "" {
		return found{}, nil // the API server would answer with a list
	}
	if trainjob.RuntimeKind(job) == trainer.Kind(trainer.TrainingRuntimeKind) {
		return namespaced(s.Live.TrainingRuntimes(job.Namespace).Get(ctx, name, metav1.GetOptions{}))
	}
	return clusterWide(s.Live.ClusterTrainingRuntimes().Get(ctx, name, metav1.GetOptions{}))
}

func namespaced(runtime *trainer.TrainingRuntime, err error) (found, error) {
	if err != nil {
		return found{}, ignoreNotFound(err)
	}
	return found{runtimesnapshot.FromTrainingRuntime(runtime), version(runtime)}, nil
}

func clusterWide(runtime *trainer.ClusterTrainingRuntime, err error) (found, error) {
	if err != nil {
		return found{}, ignoreNotFound(err)
	}
	return found{runtimesnapshot.FromClusterTrainingRuntime(runtime), version(runtime)}, nil
}

// version tells objects of a name apart, and versions of one.
func version(object metav1.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// cachedSnapshot is the job's own snapshot as the cache has it.
func (s Sources) cachedSnapshot(job *trainer.TrainJob) (found, error) {
	return snapshotOf(job)(s.Snapshots.ConfigMaps(job.Namespace).Get(runtimesnapshot.Name(job.Name)))
}

// liveSnapshot is the job's own snapshot as the API server has it, also one that has
// lost the label by which the cache would know it.
func (s Sources) liveSnapshot(ctx context.Context, job *trainer.TrainJob) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	return snapshotOf(job)(s.LiveConfigMaps.ConfigMaps(job.Namespace).Get(ctx, runtimesnapshot.Name(job.Name), metav1.GetOptions{}))
}

// errUnreadable says that a job's snapshot exists and does not hold a runtime of ours.
var errUnreadable = errors.New("the snapshot cannot be read")

func snapshotOf(job *trainer.TrainJob) func(*corev1.ConfigMap, error) (found, error) {
	return func(cm *corev1.ConfigMap, err error) (found, error) {
		if err != nil {
			return found{}, ignoreNotFound(err)
		}
		if trainjob.OwnershipOf(job, cm) != trainjob.Ours {
			return found{}, nil
		}
		runtime, err := runtimesnapshot.Decode(cm)
		if err != nil {
			return found{}, fmt.Errorf("%w: %w", errUnreadable, err)
		}
		return found{runtime, version(cm)}, nil
	}
}
