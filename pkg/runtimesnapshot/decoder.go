package runtimesnapshot

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/pkg/bytecache"
)

const (
	// decodedLimit and encodedLimit are how many bytes a Decoder and an Encoder remember.
	decodedLimit = 14 << 20
	encodedLimit = 4 << 20
)

// Decoder decodes snapshots and remembers what it has decoded: jobs of one runtime have
// equal snapshots, and to parse one takes longer than to build a job from it. It is for
// several goroutines.
type Decoder struct {
	known *bytecache.Cache[string, *Runtime] // by data
}

// NewDecoder returns a Decoder that remembers nothing yet.
func NewDecoder() *Decoder { return &Decoder{bytecache.New[string, *Runtime](decodedLimit)} }

// Decode is the function Decode. The result is shared and must not be written to.
func (d *Decoder) Decode(cm *corev1.ConfigMap) (*Runtime, error) {
	data := cm.Data[DataKey]
	if runtime, found := d.known.Get(data); found {
		return runtime, nil
	}
	runtime, err := Decode(cm)
	if err != nil {
		return nil, err
	}
	return d.known.GetOrPut(data, runtime, len(data)+weightOf(runtime)), nil
}
