package runtimesnapshot

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trainjob/controller/pkg/bytecache"
)

// Encoder writes a runtime once for all jobs that take a snapshot of it: a thousand jobs
// created at once have the same text. It is for several goroutines.
type Encoder struct {
	known *bytecache.Cache[version, string]
}

// version is a runtime at one resourceVersion.
type version struct {
	uid             types.UID
	resourceVersion string
}

// NewEncoder returns an Encoder that remembers nothing yet.
func NewEncoder() *Encoder { return &Encoder{bytecache.New[version, string](encodedLimit)} }

// Prepare gives a runtime, taken from the object, its text, and returns it. What cannot
// be written, or is too large, is left to Encode to deal with.
func (e *Encoder) Prepare(object metav1.Object, runtime *Runtime) *Runtime {
	if object.GetUID() == "" || object.GetResourceVersion() == "" {
		return runtime
	}
	key := version{object.GetUID(), object.GetResourceVersion()}
	if text, found := e.known.Get(key); found {
		runtime.Text = text
		return runtime
	}
	data, err := ofTypes(runtime)
	if err != nil || len(data) > MaxBytes {
		return runtime
	}
	runtime.Text = e.known.GetOrPut(key, string(data), len(data))
	return runtime
}
