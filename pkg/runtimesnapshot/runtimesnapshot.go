package runtimesnapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
)

const (
	// DataKey is the key of the ConfigMap that holds the runtime.
	DataKey = "runtime"
	// MaxBytes is the most that a ConfigMap's data can hold.
	MaxBytes = 1 << 20

	suffix = "-runtime-snapshot"
)

// Runtime is a runtime of either kind, as it is frozen.
type Runtime struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata                    `json:"metadata"`
	Spec            trainer.TrainingRuntimeSpec `json:"spec"`

	// Text is how the runtime is written, if an Encoder has prepared it and it fits.
	Text string `json:"-"`
}

// Metadata is the part of a runtime's metadata that is frozen with it.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// FromClusterTrainingRuntime takes what is frozen of a ClusterTrainingRuntime. The
// result shares memory with its argument and must not be written to.
func FromClusterTrainingRuntime(r *trainer.ClusterTrainingRuntime) *Runtime {
	return newRuntime(trainer.ClusterTrainingRuntimeKind, r, r.Spec)
}

// FromTrainingRuntime takes what is frozen of a TrainingRuntime. The result shares
// memory with its argument and must not be written to.
func FromTrainingRuntime(r *trainer.TrainingRuntime) *Runtime {
	return newRuntime(trainer.TrainingRuntimeKind, r, r.Spec)
}

// newRuntime writes apiVersion and kind itself: objects out of typed listers have none.
func newRuntime(kind string, object metav1.Object, spec trainer.TrainingRuntimeSpec) *Runtime {
	return &Runtime{
		TypeMeta: metav1.TypeMeta{APIVersion: trainer.SchemeGroupVersion.String(), Kind: kind},
		Metadata: Metadata{
			Name: object.GetName(), Namespace: object.GetNamespace(),
			Labels: object.GetLabels(), Annotations: withoutLastApplied(object.GetAnnotations()),
		},
		Spec: spec,
	}
}

// withoutLastApplied leaves out the copy of the whole object that kubectl keeps.
func withoutLastApplied(annotations map[string]string) map[string]string {
	if _, found := annotations[corev1.LastAppliedConfigAnnotation]; !found {
		return annotations
	}
	kept := maps.Clone(annotations)
	delete(kept, corev1.LastAppliedConfigAnnotation)
	return kept
}

// Name is the name of the ConfigMap with the snapshot of a TrainJob.
func Name(job string) string {
	return job + suffix
}

// JobName is the name of the TrainJob that a ConfigMap of this name would belong to.
func JobName(configMap string) (string, bool) {
	n := len(configMap) - len(suffix)
	if n <= 0 || configMap[n:] != suffix {
		return "", false
	}
	return configMap[:n], true
}

// Digest identifies the content of a snapshot: "sha256:" and 64 hexadecimal digits.
func Digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TooLargeError says that a runtime does not fit into a ConfigMap.
type TooLargeError struct {
	Kind, Name string
	Bytes      int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s %q takes %d bytes without its annotations, a snapshot holds at most %d: make it smaller",
		e.Kind, e.Name, e.Bytes, MaxBytes)
}

// Encode makes the snapshot of a runtime for a TrainJob. Annotations of the runtime that
// would make it too large are left out, the largest first. The error is a *TooLargeError
// when it does not fit without any.
func Encode(job *trainer.TrainJob, runtime *Runtime) (*corev1.ConfigMap, error) {
	if runtime.Text != "" {
		return configMap(job, runtime.Text), nil
	}
	data, err := fit(runtime.Kind, runtime.Metadata, func(metadata Metadata) ([]byte, error) {
		document := *runtime
		document.Metadata = metadata
		return ofTypes(&document)
	})
	if err != nil {
		return nil, err
	}
	return configMap(job, string(data)), nil
}

// fit encodes a runtime so that it fits into a ConfigMap.
func fit(kind string, metadata Metadata, encode func(Metadata) ([]byte, error)) ([]byte, error) {
	data, err := encode(metadata)
	if excess := len(data) - MaxBytes; err == nil && excess > 0 && len(metadata.Annotations) > 0 {
		metadata.Annotations = withoutLargest(metadata.Annotations, excess)
		data, err = encode(metadata)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode %s %q: %w", kind, metadata.Name, err)
	case len(data) > MaxBytes:
		return nil, &TooLargeError{Kind: kind, Name: metadata.Name, Bytes: len(data)}
	}
	return data, nil
}

// withoutLargest leaves out the largest annotations until they and their keys are as
// many bytes as given, or none is left. What people and controllers steer by is short;
// what fills a runtime is some tool's copy of things.
func withoutLargest(annotations map[string]string, bytes int) map[string]string {
	kept := maps.Clone(annotations)
	size := func(key string) int { return len(key) + len(annotations[key]) }
	bySize := slices.SortedFunc(maps.Keys(annotations), func(a, b string) int {
		return cmp.Or(size(b)-size(a), strings.Compare(a, b))
	})
	for _, key := range bySize {
		if bytes <= 0 {
			break
		}
		delete(kept, key)
		bytes -= size(key)
	}
	return kept
}

// configMap is the ConfigMap of a job that holds a runtime's text.
func configMap(job *trainer.TrainJob, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(job.Name), Namespace: job.Namespace,
			Labels:          map[string]string{trainer.LabelTrainJobName: job.Name},
			OwnerReferences: []metav1.OwnerReference{trainjob.OwnerReference(job)},
		},
		Immutable: ptr.To(true),
		Data:      map[string]string{DataKey: data},
	}
}

// Reference is how a TrainJob's status names a snapshot.
func Reference(cm *corev1.ConfigMap) *trainer.RuntimeSnapshotReference {
	return &trainer.RuntimeSnapshotReference{Name: cm.Name, UID: cm.UID, Digest: Digest(cm.Data[DataKey])}
}

// Decode reads a snapshot back and fills in the defaults that were missing when it
// was taken, so that nothing that reads it meets a nil where the CRD has a default.
func Decode(cm *corev1.ConfigMap) (*Runtime, error) {
	data, found := cm.Data[DataKey]
	if !found {
		return nil, fmt.Errorf("ConfigMap %q has no key data.%s", cm.Name, DataKey)
	}
	runtime := &Runtime{}
	if err := yaml.Unmarshal([]byte(data), runtime); err != nil {
		return nil, fmt.Errorf("data.%s of ConfigMap %q is not a runtime: %w", DataKey, cm.Name, err)
	}
	if runtime.APIVersion != trainer.SchemeGroupVersion.String() ||
		(runtime.Kind != trainer.ClusterTrainingRuntimeKind && runtime.Kind != trainer.TrainingRuntimeKind) {
		return nil, fmt.Errorf("data.%s of ConfigMap %q holds apiVersion %q, kind %q; want %s and %s or %s",
			DataKey, cm.Name, runtime.APIVersion, runtime.Kind,
			trainer.SchemeGroupVersion, trainer.ClusterTrainingRuntimeKind, trainer.TrainingRuntimeKind)
	}
	setDefaults(&runtime.Spec)
	return runtime, nil
}

// Matches says whether a snapshot still holds what the status says was taken. A
// snapshot that has not been recorded yet, or that was taken anew since (it has
// another UID), matches.
func Matches(cm *corev1.ConfigMap, recorded *trainer.RuntimeSnapshotReference) error {
	if recorded == nil || recorded.UID != cm.UID {
		return nil
	}
	if got := Digest(cm.Data[DataKey]); got != recorded.Digest {
		return errors.New("ConfigMap " + cm.Name + " was changed after the snapshot was taken: its digest is " + got +
			", status.runtimeSnapshot says " + recorded.Digest + "; delete the ConfigMap to take a new snapshot from the runtime")
	}
	return nil
}
