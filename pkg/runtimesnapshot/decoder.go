package runtimesnapshot

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// rememberLimit is how many runtimes a Decoder remembers, and an Encoder.
const rememberLimit = 256

// Decoder decodes snapshots and remembers what it has decoded: jobs of one runtime have
// equal snapshots, and to parse one takes longer than to build a job from it. The zero
// value is ready for use, by several goroutines.
type Decoder struct {
	mu    sync.Mutex
	known map[string]*Runtime // by data
}

// Decode is the function Decode. The result is shared and must not be written to.
func (d *Decoder) Decode(cm *corev1.ConfigMap) (*Runtime, error) {
	data := cm.Data[DataKey]
	if runtime := d.find(data); runtime != nil {
		return runtime, nil
	}
	runtime, err := Decode(cm)
	if err == nil {
		d.remember(data, runtime)
	}
	return runtime, err
}

func (d *Decoder) find(data string) *Runtime {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[data]
}

// remember forgets all others when there are too many: they come back as they are needed.
func (d *Decoder) remember(data string, runtime *Runtime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= rememberLimit {
		d.known = map[string]*Runtime{}
	}
	d.known[data] = runtime
}
