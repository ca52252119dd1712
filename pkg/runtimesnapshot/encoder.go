package runtimesnapshot

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Encoder writes a runtime once for all jobs that take a snapshot of it: a thousand jobs
// created at once have the same text. The zero value is ready for use, by several
// goroutines.
type Encoder struct {
	mu    sync.Mutex
	known map[types.UID]written // by runtime
}

// written is how a runtime is written at one resourceVersion.
type written struct{ resourceVersion, data string }

// Prepare gives a runtime, taken from the object, its text, and returns it. What cannot
// be written, or is too large, is left to Encode to deal with.
func (e *Encoder) Prepare(object metav1.Object, runtime *Runtime) *Runtime {
	if object.GetUID() == "" || object.GetResourceVersion() == "" {
		return runtime
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.known[object.GetUID()]; known.resourceVersion == object.GetResourceVersion() {
		runtime.Text = known.data
		return runtime
	}
	data, err := yaml.Marshal(runtime)
	if err != nil || len(data) > MaxBytes {
		return runtime
	}
	// Runtimes are few. Those that are gone go when there are too many.
	if e.known == nil || len(e.known) >= rememberLimit {
		e.known = map[types.UID]written{}
	}
	runtime.Text = string(data)
	e.known[object.GetUID()] = written{object.GetResourceVersion(), runtime.Text}
	return runtime
}
