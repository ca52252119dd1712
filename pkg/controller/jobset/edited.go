package jobset

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/operations"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
)

// warnings remembers of which version of a snapshot a user has been warned. Forgetting
// it, as a restart does, costs one repeated event.
type warnings struct {
	mu    sync.Mutex
	given map[cache.ObjectName]string
}

// first says whether a warning about this version has yet to be given, and notes it.
func (w *warnings) first(key cache.ObjectName, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given[key] == version {
		return false
	}
	if w.given == nil {
		w.given = map[cache.ObjectName]string{}
	}
	w.given[key] = version
	return true
}

// forget drops a job that is gone.
func (w *warnings) forget(key cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.given, key)
}

// warnOfEdit tells that the snapshot of a job which has its JobSet was edited. That
// changes nothing about what runs, so it is no state of the job; but what the snapshot
// says is no longer what the job was built from.
func (c *Controller) warnOfEdit(key cache.ObjectName, job *trainer.TrainJob, snapshot *corev1.ConfigMap) {
	err := runtimesnapshot.Matches(snapshot, job.Status.RuntimeSnapshot)
	if err == nil || !c.warned.first(key, string(snapshot.UID)+snapshot.ResourceVersion) {
		return
	}
	operations.Emit(c.recorder, job, corev1.EventTypeWarning, trainer.ReasonSnapshotInvalid, err.Error())
}
