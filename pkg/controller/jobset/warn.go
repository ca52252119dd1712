package jobset

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// warnings remembers what the user of a job was warned of. Forgetting it, as a restart
// does, costs one repeated event.
type warnings struct {
	mu    sync.Mutex
	given map[cache.ObjectName]sets.Set[string]
}

// first says whether this warning has yet to be given, and notes it.
func (w *warnings) first(key cache.ObjectName, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given[key].Has(what) {
		return false
	}
	if w.given == nil {
		w.given = map[cache.ObjectName]sets.Set[string]{}
	}
	if w.given[key] == nil {
		w.given[key] = sets.New[string]()
	}
	w.given[key].Insert(what)
	return true
}

// forget drops a job that is gone.
func (w *warnings) forget(key cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.given, key)
}

// warn tells of what concerns a job with a JobSet but is no state of it, because what
// runs does not change by it.
func (c *Controller) warn(key cache.ObjectName, job *trainer.TrainJob, seen observation) {
	js := seen.own(job)
	if js == nil {
		return
	}
	if seen.snapshot != nil {
		if err := runtimesnapshot.Matches(seen.snapshot, job.Status.RuntimeSnapshot); err != nil {
			c.warnOnce(key, "snapshot "+string(seen.snapshot.UID)+seen.snapshot.ResourceVersion, job, trainer.ReasonSnapshotInvalid, err.Error())
		}
	}
	// The CRD refuses a change of patches while the job runs. It can come all the same
	// when nobody was there to see the job suspended for a moment.
	built, wanted := js.Annotations[trainer.AnnotationPatchesHash], render.PatchesHash(job.Spec.RuntimePatches)
	if built != "" && built != wanted && !trainjob.JobSetSuspended(js) && !trainjob.Suspended(job) {
		c.warnOnce(key, "patches "+wanted, job, operations.EventPatchNotApplied,
			"spec.runtimePatches has changed but the JobSet was not suspended for it: the job goes on without the change; suspend and resume it to apply it")
	}
}

func (c *Controller) warnOnce(key cache.ObjectName, what string, job *trainer.TrainJob, reason, message string) {
	if c.warned.first(key, what) {
		operations.Emit(c.recorder, job, corev1.EventTypeWarning, reason, message)
	}
}
