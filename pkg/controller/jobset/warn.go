package jobset

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/render"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// warnings remembers what the users of jobs were warned of. Forgetting it, as a restart
// does, costs one repeated event.
type warnings struct {
	mu    sync.Mutex
	given map[cache.ObjectName]given
}

// given is of one job what is wrong with it, by the field or object that is wrong.
type given struct {
	uid  types.UID
	what map[string]string
}

// first says whether it has yet to be told what is wrong with a thing, and notes it. An
// empty `what` means that nothing is, so that the same is news when it comes again.
func (w *warnings) first(job *trainer.TrainJob, thing, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := cache.MetaObjectToName(job)
	known := w.given[key]
	if known.uid != job.UID {
		known = given{uid: job.UID} // another job had that name
	}
	if known.what[thing] == what {
		return false
	}
	if known.what == nil {
		known.what = map[string]string{}
	}
	if w.given == nil {
		w.given = map[cache.ObjectName]given{}
	}
	known.what[thing] = what
	w.given[key] = known
	return what != ""
}

// forget drops a job that is gone.
func (w *warnings) forget(key cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.given, key)
}

// warn tells of what concerns a job with a JobSet but is no state of it, because what
// runs does not change by it.
func (c *Controller) warn(job *trainer.TrainJob, seen observation) {
	js := seen.own(job)
	if js == nil {
		return
	}
	if seen.snapshot != nil {
		if err := runtimesnapshot.Matches(seen.snapshot, job.Status.RuntimeSnapshot); err != nil {
			c.warnOnce(job, "snapshot", string(seen.snapshot.UID)+seen.snapshot.ResourceVersion, trainer.ReasonSnapshotInvalid, err.Error())
		}
	}
	// The CRD refuses a change of patches while the job runs. It can come all the same
	// when nobody was there to see the job suspended for a moment.
	built, wanted := js.Annotations[trainer.AnnotationPatchesHash], render.PatchesHash(job.Spec.RuntimePatches)
	if built == "" || built == wanted || trainjob.JobSetSuspended(js) || trainjob.Suspended(job) {
		wanted = ""
	}
	c.warnOnce(job, "patches", wanted, operations.EventPatchNotApplied,
		"spec.runtimePatches has changed but the JobSet was not suspended for it: the job goes on without the change; suspend and resume it to apply it")
}

func (c *Controller) warnOnce(job *trainer.TrainJob, thing, what, reason, message string) {
	if c.warned.first(job, thing, what) {
		operations.Emit(c.recorder, job, corev1.EventTypeWarning, reason, message)
	}
}
