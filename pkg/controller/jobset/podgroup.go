package jobset

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/trainjob"
)

// releasePodGroup deletes the group of a job that has finished, whose pods a scheduler
// would otherwise go on waiting for. Nothing watches groups, so each finished job looks
// once, and once more after a restart.
func (c *Controller) releasePodGroup(ctx context.Context, key cache.ObjectName, job *trainer.TrainJob, seen observation) error {
	if seen.snapshot == nil || trainjob.BeingDeleted(job) || c.helpers.released.has(key, job.UID) {
		return nil
	}
	runtime, err := c.decoder.Decode(seen.snapshot)
	if err != nil {
		return nil // nothing tells the scheduler: the group goes with its job
	}
	// What the job is built from now may not render any more, and had its group before.
	kind, gang := render.PodGroupKind(&runtime.Spec)
	if !gang {
		return nil // it never had one
	}
	if err := c.helpers.deletePodGroup(ctx, job, kind, job.Name); err != nil {
		return err
	}
	c.helpers.released.note(key, job.UID)
	return nil
}

// deletePodGroup deletes the group if it is the job's own.
func (h *helperWriter) deletePodGroup(ctx context.Context, job *trainer.TrainJob, kind schema.GroupVersionKind, name string) error {
	client := h.podGroups.Resource(podGroupsOf(kind)).Namespace(job.Namespace)
	group, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PodGroup %q: %w", name, err)
	}
	if trainjob.OwnershipOf(job, group) != trainjob.Ours || group.GetDeletionTimestamp() != nil {
		return nil
	}
	err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(group.GetUID()))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PodGroup %q: %w", name, err)
	}
	return nil
}

// released remembers the finished jobs whose group is gone. Forgetting it, as a restart
// does, costs one read.
type released struct {
	mu   sync.Mutex
	jobs map[cache.ObjectName]types.UID
}

func (r *released) has(key cache.ObjectName, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[key] == uid
}

func (r *released) note(key cache.ObjectName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs == nil {
		r.jobs = map[cache.ObjectName]types.UID{}
	}
	r.jobs[key] = uid
}

// forget drops a job that is gone.
func (r *released) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, key)
}

// missingFor is how long a kind that the API server did not know is taken to be missing.
const missingFor = time.Minute

// missingKinds remembers which kinds the API server did not know a moment ago, so that
// a thousand jobs that wait for one ask no more often than one job does. Forgetting it,
// as a restart does, costs one refused create.
type missingKinds struct {
	mu    sync.Mutex
	until map[schema.GroupVersionKind]time.Time
}

// wait is how long the kind is still taken to be missing; 0 means it may be tried.
func (m *missingKinds) wait(kind schema.GroupVersionKind, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(max(m.until[kind].Sub(now), 0), missingFor)
}

func (m *missingKinds) note(kind schema.GroupVersionKind, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[schema.GroupVersionKind]time.Time{}
	}
	m.until[kind] = now.Add(missingFor)
}
