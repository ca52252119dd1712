package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/apierror"
	"github.com/trainjob/controller/pkg/trainjob"
)

// labelAggregate, on a ClusterRole, gives this controller the rights in it.
const labelAggregate = "trainer.kubeflow.org/aggregate-to-trainjob-controller"

// opaqueReader reads runtimes of the kinds that are listed as opaque: live, because
// nothing of them is watched. A job that did not get its runtime asks again after a
// time that grows, whatever wakes it in between.
type opaqueReader struct {
	kinds  sets.Set[schema.GroupKind]
	finder *kindFinder
	client dynamic.Interface

	mu    sync.Mutex
	tries map[cache.ObjectName]try
}

// try is the last time that a job did not get its snapshot, and for what cause.
type try struct {
	job types.UID
	at  time.Time
	// every is how long the next look is put off; zero is not at all.
	every time.Duration
	cause trainjob.Cause
}

// sought is what came of looking for an opaque runtime: the runtime, or why there is
// none and when to look again.
type sought struct {
	runtime *unstructured.Unstructured
	missing *trainjob.Cause
	again   time.Duration
	// news: the cause is another than it was the last time.
	news bool
}

// read looks for the runtime of a job. An error means that nothing is known: there was
// no answer to go by.
func (r *opaqueReader) read(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, now time.Time) (sought, error) {
	last, tried := r.last(key, job)
	if rest := last.every - now.Sub(last.at); tried && rest > 0 && rest <= last.every {
		return sought{missing: &last.cause, again: rest}, nil
	}
	runtime, cause, err := r.look(ctx, job, now)
	if err != nil {
		return sought{}, err
	}
	if cause == nil {
		if tried { // what was told stays told, but nothing is put off any more
			r.note(key, try{job: job.UID, at: now, cause: last.cause})
		}
		return sought{runtime: runtime}, nil
	}
	next := try{job: job.UID, at: now, every: max(minPoll, min(2*last.every, maxPoll)), cause: *cause}
	r.note(key, next)
	return sought{missing: cause, again: next.every, news: !tried || last.cause != *cause}, nil
}

// hold notes why a runtime that was found did not become a snapshot. The next look is put
// off, except where that is no fault of the runtime's: where a ConfigMap is in the way, or
// was refused.
func (r *opaqueReader) hold(key cache.ObjectName, job *trainer.TrainJob, cause trainjob.Cause, now time.Time) sought {
	last, tried := r.last(key, job)
	next := try{job: job.UID, at: now, every: maxPoll, cause: cause}
	if cause.Reason == trainer.ReasonSnapshotConflict || cause.Reason == trainer.ReasonCreationFailed {
		next.every = 0
	}
	r.note(key, next)
	return sought{missing: &cause, again: next.every, news: !tried || last.cause != cause}
}

// look asks the API server for the runtime of a job.
func (r *opaqueReader) look(ctx context.Context, job *trainer.TrainJob, now time.Time) (*unstructured.Unstructured, *trainjob.Cause, error) {
	kind := trainjob.RuntimeKind(job)
	mapping, err := r.finder.find(ctx, kind, now)
	switch {
	case apierror.Of(err).Refusal():
		return nil, waiting("%s cannot be looked for: %v", describe(job), err), nil
	case err != nil:
		return nil, nil, err
	case mapping == nil:
		return nil, waiting("spec.runtimeRef names %s, but the API server does not serve that kind: the job goes on within a minute of its CRD being installed", describe(job)), nil
	}
	runtime, err := r.resource(mapping, job.Namespace).Get(ctx, job.Spec.RuntimeRef.Name, metav1.GetOptions{})
	switch meaning := apierror.Of(err); {
	case err == nil:
		return runtime, nil, nil
	case meaning == apierror.MissingKind:
		r.finder.expire(kind)
		return nil, waiting("spec.runtimeRef names %s, but the API server no longer serves that kind: the job goes on within a minute of its CRD being installed again", describe(job)), nil
	case meaning == apierror.Gone:
		return nil, waiting("spec.runtimeRef names %s%s, which does not exist: the job goes on within a minute of its creation", describe(job), where(mapping, job)), nil
	case apierrors.IsForbidden(err):
		return nil, waiting("%s%s cannot be read: this controller lacks the right to get %s; label a ClusterRole that grants it with %s: \"true\" (%v)",
			describe(job), where(mapping, job), mapping.Resource.GroupResource(), labelAggregate, err), nil
	case meaning.Refusal():
		return nil, waiting("%s%s cannot be read: %v", describe(job), where(mapping, job), err), nil
	}
	return nil, nil, fmt.Errorf("read %s: %w", describe(job), err)
}

func waiting(format string, args ...any) *trainjob.Cause {
	return &trainjob.Cause{Reason: trainer.ReasonWaitingForRuntime, Message: fmt.Sprintf(format, args...)}
}

// resource is where runtimes of a kind are, for jobs of a namespace.
func (r *opaqueReader) resource(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.client.Resource(mapping.Resource).Namespace(namespace)
	}
	return r.client.Resource(mapping.Resource)
}

// where says, for a message, in which namespace a runtime is looked for.
func where(mapping *meta.RESTMapping, job *trainer.TrainJob) string {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return fmt.Sprintf(" in namespace %q", job.Namespace)
	}
	return ""
}

func (r *opaqueReader) last(key cache.ObjectName, job *trainer.TrainJob) (try, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.tries[key]
	if !ok || last.job != job.UID {
		return try{}, false
	}
	return last, true
}

func (r *opaqueReader) note(key cache.ObjectName, next try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries == nil {
		r.tries = map[cache.ObjectName]try{}
	}
	r.tries[key] = next
}

// forget drops a job that has its snapshot, waits for nothing any more, or is gone.
func (r *opaqueReader) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tries, key)
}
