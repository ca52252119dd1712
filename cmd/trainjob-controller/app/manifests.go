package app

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/generated/clientset/versioned/scheme"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/pkg/trainjob"
)

// document is an object and where it was read.
type document[T any] struct {
	object T
	source string
}

// manifests are the objects of our API group that were read from files.
type manifests struct {
	jobs     []document[*v1alpha1.TrainJob]
	runtimes []document[*runtimesnapshot.Runtime]
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// read takes in the YAML documents of one file. All wrong ones are reported.
func (m *manifests) read(source string, from io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(from))
	var errs []error
	for number := 1; ; number++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("%s: %w", source, err))...)
		}
		where := source
		if number > 1 {
			where = fmt.Sprintf("%s, document %d", source, number)
		}
		if err := m.add(where, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
}

// add takes in one document. What other API groups have in a file is not ours to
// judge; what claims to be of ours must be right.
func (m *manifests) add(where string, text []byte) error {
	if len(bytes.TrimSpace(withoutComments(text))) == 0 {
		return nil
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	if kind.APIVersion == "" || kind.Kind == "" {
		return fmt.Errorf("apiVersion is %q and kind is %q: both must be set", kind.APIVersion, kind.Kind)
	}
	if group, _, _ := strings.Cut(kind.APIVersion, "/"); group != v1alpha1.GroupName {
		return nil
	}
	object, _, err := strict.Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return fmt.Errorf("there is no kind %s in %s: %s has %s, %s and %s", kind.Kind, kind.APIVersion,
			v1alpha1.SchemeGroupVersion, v1alpha1.TrainJobKind, v1alpha1.TrainingRuntimeKind, v1alpha1.ClusterTrainingRuntimeKind)
	case err != nil:
		return err
	}
	switch object := object.(type) {
	case *v1alpha1.TrainJob:
		return m.addJob(where, object)
	case *v1alpha1.ClusterTrainingRuntime:
		object.Namespace = "" // it has none, whatever the file says
		return m.addRuntime(where, runtimesnapshot.FromClusterTrainingRuntime(object))
	case *v1alpha1.TrainingRuntime:
		object.Namespace = cmp.Or(object.Namespace, metav1.NamespaceDefault)
		return m.addRuntime(where, runtimesnapshot.FromTrainingRuntime(object))
	default:
		return fmt.Errorf("kind %s is none that can be rendered: give its items one by one", kind.Kind)
	}
}

func withoutComments(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if trimmed := bytes.TrimSpace(line); !bytes.HasPrefix(trimmed, []byte("#")) && !bytes.HasPrefix(trimmed, []byte("---")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (m *manifests) addJob(where string, job *v1alpha1.TrainJob) error {
	job.Namespace = cmp.Or(job.Namespace, metav1.NamespaceDefault)
	if job.Name == "" {
		return fmt.Errorf("%s: metadata.name must be set", v1alpha1.TrainJobKind)
	}
	for _, other := range m.jobs {
		if other.object.Name == job.Name && other.object.Namespace == job.Namespace {
			return fmt.Errorf("TrainJob %s/%s is also in %s", job.Namespace, job.Name, other.source)
		}
	}
	m.jobs = append(m.jobs, document[*v1alpha1.TrainJob]{job, where})
	return nil
}

func (m *manifests) addRuntime(where string, frozen *runtimesnapshot.Runtime) error {
	if frozen.Metadata.Name == "" {
		return fmt.Errorf("%s: metadata.name must be set", frozen.Kind)
	}
	if other := m.runtime(frozen.Kind, frozen.Metadata.Namespace, frozen.Metadata.Name); other != nil {
		return fmt.Errorf("%s %s is also in %s", frozen.Kind, frozen.Metadata.Name, other.source)
	}
	m.runtimes = append(m.runtimes, document[*runtimesnapshot.Runtime]{frozen, where})
	return nil
}

func (m *manifests) runtime(kind, namespace, name string) *document[*runtimesnapshot.Runtime] {
	for i := range m.runtimes {
		if r := m.runtimes[i].object; r.Kind == kind && r.Metadata.Namespace == namespace && r.Metadata.Name == name {
			return &m.runtimes[i]
		}
	}
	return nil
}

// runtimeOf finds the runtime a job refers to among those that were read.
func (m *manifests) runtimeOf(job *v1alpha1.TrainJob) (*document[*runtimesnapshot.Runtime], error) {
	kind, name := trainjob.RuntimeKind(job), job.Spec.RuntimeRef.Name
	if !trainjob.OwnRuntimeKind(kind) {
		return nil, fmt.Errorf("spec.runtimeRef: of a %s there is nothing to render: what its jobs need is made by a builder of its own, if the controller allows the kind with --%s", kind, opaqueFlag)
	}
	namespace := ""
	if kind.Kind == v1alpha1.TrainingRuntimeKind {
		namespace = job.Namespace
	}
	if found := m.runtime(kind.Kind, namespace, name); found != nil {
		return found, nil
	}
	var have []string
	for _, r := range m.runtimes {
		text := r.object.Kind + " " + r.object.Metadata.Name
		if r.object.Metadata.Namespace != "" {
			text = r.object.Kind + " " + r.object.Metadata.Namespace + "/" + r.object.Metadata.Name
		}
		have = append(have, text)
	}
	slices.Sort(have)
	wanted := name
	if namespace != "" {
		wanted = namespace + "/" + name
	}
	return nil, fmt.Errorf("spec.runtimeRef: %s %s is in none of the files (they have: %s): add its file with -f",
		kind.Kind, wanted, cmp.Or(strings.Join(have, ", "), "no runtime"))
}
