package runtimesnapshot

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// mustEncode and mustDecode fail the test on an error.
func mustEncode(t *testing.T, job *trainer.TrainJob, runtime *Runtime) *corev1.ConfigMap {
	t.Helper()
	cm, err := Encode(job, runtime)
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func mustDecode(t *testing.T, cm *corev1.ConfigMap) *Runtime {
	t.Helper()
	runtime, err := Decode(cm)
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

func TestRoundTrip(t *testing.T) {
	labels := map[string]string{trainer.LabelFramework: "torch"}
	annotations := map[string]string{
		"example.com/note":                 "kept: \"quoted\"\nand more",
		corev1.LastAppliedConfigAnnotation: `{"kind":"TrainingRuntime"}`,
	}
	specs := map[string]trainer.TrainingRuntimeSpec{
		"plain": builders.PlainSpec(), "torch": builders.TorchSpec(),
		"initializers": builders.InitializerSpec(), "mpi": builders.MPISpec(),
	}
	for name, spec := range specs {
		t.Run("ClusterTrainingRuntime with "+name, func(t *testing.T) {
			runtime := builders.ClusterTrainingRuntime("r", spec, func(r *trainer.ClusterTrainingRuntime) {
				r.TypeMeta, r.Labels, r.Annotations = metav1.TypeMeta{}, labels, annotations
			})
			untouched := runtime.DeepCopy()
			cm := mustEncode(t, builders.TrainJob("a"), FromClusterTrainingRuntime(runtime))
			expect(t, "the runtime itself", untouched, runtime)
			expect(t, "snapshot", &Runtime{
				TypeMeta: metav1.TypeMeta{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "ClusterTrainingRuntime"},
				Metadata: Metadata{
					Name: "r", Labels: labels, Annotations: map[string]string{"example.com/note": annotations["example.com/note"]},
				},
				Spec: spec,
			}, mustDecode(t, cm))
		})
		t.Run("TrainingRuntime with "+name, func(t *testing.T) {
			runtime := builders.TrainingRuntime("r", spec, func(r *trainer.TrainingRuntime) {
				r.TypeMeta, r.Labels, r.Annotations = metav1.TypeMeta{}, labels, annotations
			})
			untouched := runtime.DeepCopy()
			cm := mustEncode(t, builders.TrainJob("a"), FromTrainingRuntime(runtime))
			expect(t, "the runtime itself", untouched, runtime)
			expect(t, "snapshot", &Runtime{
				TypeMeta: metav1.TypeMeta{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainingRuntime"},
				Metadata: Metadata{
					Name: "r", Namespace: "default", Labels: labels,
					Annotations: map[string]string{"example.com/note": annotations["example.com/note"]},
				},
				Spec: spec,
			}, mustDecode(t, cm))
		})
	}
}

func TestDocumentBeginsWithAPIVersionAndKind(t *testing.T) {
	withoutType := metav1.TypeMeta{} // as typed listers return objects
	cases := map[string]struct {
		runtime *Runtime
		want    string
	}{
		"ClusterTrainingRuntime": {
			FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("r", builders.TorchSpec(),
				func(r *trainer.ClusterTrainingRuntime) { r.TypeMeta = withoutType })),
			"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata:\n  name: r\nspec:\n",
		},
		"TrainingRuntime": {
			FromTrainingRuntime(builders.TrainingRuntime("r", builders.TorchSpec(),
				func(r *trainer.TrainingRuntime) { r.TypeMeta = withoutType })),
			"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata:\n  name: r\n  namespace: default\nspec:\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := mustEncode(t, builders.TrainJob("a"), tc.runtime).Data[DataKey]
			expect(t, "beginning", tc.want, data[:min(len(data), len(tc.want))])
		})
	}
}

func TestSnapshotIsAnImmutableChildOfTheJob(t *testing.T) {
	job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.TypeMeta = metav1.TypeMeta{} })
	runtime := FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("torch", builders.TorchSpec()))
	cm := mustEncode(t, job, runtime)
	data := cm.Data[DataKey]
	expect(t, "ConfigMap", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a-runtime-snapshot", Namespace: "default",
			Labels: map[string]string{"trainer.kubeflow.org/trainjob-name": "a"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "a", UID: "a-uid",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Immutable: ptr.To(true),
		Data:      map[string]string{"runtime": data},
	}, cm)
	expect(t, "data of a second encoding", data, mustEncode(t, job, runtime).Data[DataKey])
}

func TestAnnotations(t *testing.T) {
	const last = corev1.LastAppliedConfigAnnotation
	cases := map[string]struct{ annotations, want map[string]string }{
		"none":                     {},
		"others stay":              {map[string]string{"a": "1"}, map[string]string{"a": "1"}},
		"kubectl's copy goes":      {map[string]string{last: "{}", "a": "1"}, map[string]string{"a": "1"}},
		"nothing but that is none": {map[string]string{last: "{}"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := builders.TrainingRuntime("r", builders.PlainSpec(), func(r *trainer.TrainingRuntime) { r.Annotations = tc.annotations })
			got := mustDecode(t, mustEncode(t, builders.TrainJob("a"), FromTrainingRuntime(runtime)))
			expect(t, "annotations", tc.want, got.Metadata.Annotations)
		})
	}
}

// sized is a runtime whose spec takes about as many bytes as given.
func sized(bytes int, annotations map[string]string) *Runtime {
	spec := builders.PlainSpec()
	spec.Template.Spec.ReplicatedJobs[0].Template.Annotations = map[string]string{"fill": strings.Repeat("x", bytes)}
	return FromTrainingRuntime(builders.TrainingRuntime("big", spec, func(r *trainer.TrainingRuntime) {
		r.Labels, r.Annotations = map[string]string{"team": "vision"}, annotations
	}))
}

func TestSnapshotThatIsTooLarge(t *testing.T) {
	job := builders.TrainJob("a")
	overhead := len(mustEncode(t, job, sized(1, nil)).Data[DataKey]) - 1
	fits := mustEncode(t, job, sized(MaxBytes-overhead, nil))
	expect(t, "bytes of the largest snapshot", MaxBytes, len(fits.Data[DataKey]))

	for name, annotations := range map[string]map[string]string{"bare": nil, "with annotations": {"a": "b", "c": strings.Repeat("d", 5000)}} {
		t.Run(name, func(t *testing.T) {
			_, err := Encode(job, sized(MaxBytes-overhead+1, annotations))
			var tooLarge *TooLargeError
			if !errors.As(err, &tooLarge) {
				t.Fatalf("error is %v, want a TooLargeError", err)
			}
			expect(t, "error", &TooLargeError{Kind: "TrainingRuntime", Name: "big", Bytes: MaxBytes + 1}, tooLarge)
			expect(t, "message", `TrainingRuntime "big" takes 1048577 bytes without its annotations, a snapshot holds at most 1048576: `+
				`make it smaller`, err.Error())
		})
	}
}

func TestAnnotationsMakeNoRuntimeTooLarge(t *testing.T) {
	job := builders.TrainJob("a")
	overhead := len(mustEncode(t, job, sized(1, nil)).Data[DataKey]) - 1
	long := func(n int) string { return strings.Repeat("y", n) }
	cases := map[string]struct {
		room        int // what the spec leaves for annotations
		annotations map[string]string
		kept        []string
	}{
		"they stay when there is room":         {4000, map[string]string{"a": long(1000), "b": long(1000)}, []string{"a", "b"}},
		"the largest goes first":               {2000, map[string]string{"queue": "gpu", "copy": long(3000), "note": "x"}, []string{"note", "queue"}},
		"and then the next":                    {500, map[string]string{"a": long(1000), "b": long(3000), "c": "x"}, []string{"c"}},
		"of equals that with the first name":   {2000, map[string]string{"b": long(1500), "a": long(1500), "c": long(10)}, []string{"b", "c"}},
		"all of them if there is no other way": {0, map[string]string{"a": "1", "b": "2"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.annotations)
			runtime := sized(MaxBytes-overhead-tc.room, tc.annotations)
			cm := mustEncode(t, job, runtime)
			expect(t, "a second encoding is the same", cm, mustEncode(t, job, runtime))
			got := mustDecode(t, cm)
			expect(t, "annotations that were kept", tc.kept, slices.Sorted(maps.Keys(got.Metadata.Annotations)))
			for key, value := range got.Metadata.Annotations {
				expect(t, "annotation "+key, before[key], value)
			}
			expect(t, "labels", map[string]string{"team": "vision"}, got.Metadata.Labels)
			expect(t, "annotations of the runtime itself", before, tc.annotations)
		})
	}
}

func TestEncodeTellsWhichRuntimeCannotBeEncoded(t *testing.T) {
	spec := trainer.TrainingRuntimeSpec{}
	spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, builders.ReplicatedJob("node", ""))
	spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers = []corev1.Container{{
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.IntOrString{Type: 7}}}},
	}}
	runtime := FromTrainingRuntime(builders.TrainingRuntime("r", spec))
	cm, err := Encode(builders.TrainJob("a"), runtime)
	if err == nil || cm != nil || !strings.HasPrefix(err.Error(), `encode TrainingRuntime "r": `) {
		t.Errorf("got %v and error %v", cm, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]struct {
		data map[string]string
		want string // part of the error
	}{
		"no data":             {nil, `ConfigMap "a-runtime-snapshot" has no key data.runtime`},
		"another key":         {map[string]string{"runtime.yaml": "x"}, "has no key data.runtime"},
		"an empty document":   {map[string]string{DataKey: ""}, `holds apiVersion "", kind ""`},
		"null":                {map[string]string{DataKey: "null"}, `holds apiVersion "", kind ""`},
		"broken YAML":         {map[string]string{DataKey: "kind: [unclosed"}, "is not a runtime"},
		"a cut document":      {map[string]string{DataKey: "apiVersion: trainer.kubeflow.org/v1alpha1\nkind"}, "is not a runtime"},
		"a list":              {map[string]string{DataKey: "- a\n- b"}, "is not a runtime"},
		"a field of bad type": {map[string]string{DataKey: document("TrainingRuntime", "mlPolicy: {numNodes: many}")}, "is not a runtime"},
		"another kind":        {map[string]string{DataKey: document("TrainJob", "{}")}, `kind "TrainJob"; want`},
		"no kind":             {map[string]string{DataKey: "apiVersion: trainer.kubeflow.org/v1alpha1\nspec: {}"}, `kind ""; want`},
		"another version": {
			map[string]string{DataKey: strings.Replace(document("TrainingRuntime", "{}"), "v1alpha1", "v9", 1)},
			`holds apiVersion "trainer.kubeflow.org/v9"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-runtime-snapshot"}, Data: tc.data})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
			if got != nil {
				t.Errorf("comes with a runtime: %v", got)
			}
		})
	}
}

// document is the YAML of a runtime with a spec in flow style.
func document(kind, spec string) string {
	return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: " + kind + "\nmetadata: {name: r}\nspec:\n  " + spec + "\n"
}

func TestNames(t *testing.T) {
	cases := map[string]struct {
		configMap string
		job       string // empty: belongs to no job
	}{
		"of a job":                  {"a-runtime-snapshot", "a"},
		"of a job named like one":   {"a-runtime-snapshot-runtime-snapshot", "a-runtime-snapshot"},
		"another ConfigMap":         {"a-mpi-hostfile", ""},
		"the suffix alone":          {"-runtime-snapshot", ""},
		"the suffix without a dash": {"runtime-snapshot", ""},
		"the suffix in the middle":  {"a-runtime-snapshot-2", ""},
		"nothing":                   {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job, ok := JobName(tc.configMap)
			expect(t, "job", tc.job, job)
			expect(t, "belongs to a job", tc.job != "", ok)
			if ok {
				expect(t, "back again", tc.configMap, Name(job))
			}
		})
	}
}

func TestDigest(t *testing.T) {
	expect(t, "of nothing", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Digest(""))
	expect(t, "of abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", Digest("abc"))
}

func TestMatches(t *testing.T) {
	cm := mustEncode(t, builders.TrainJob("a"), FromTrainingRuntime(builders.TrainingRuntime("r", builders.TorchSpec())))
	cm.UID = "cm-uid"
	taken := Reference(cm)
	expect(t, "reference", &trainer.RuntimeSnapshotReference{
		Name: "a-runtime-snapshot", UID: "cm-uid", Digest: Digest(cm.Data[DataKey]),
	}, taken)

	if err := Matches(cm, nil); err != nil {
		t.Errorf("nothing recorded: %v", err)
	}
	if err := Matches(cm, taken); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	replaced := cm.DeepCopy()
	replaced.UID = "another"
	if err := Matches(replaced, taken); err != nil {
		t.Errorf("made anew with the same content: %v", err)
	}
	edited := cm.DeepCopy()
	edited.Data[DataKey] += "# edited\n"
	err := Matches(edited, taken)
	for _, part := range []string{"a-runtime-snapshot", Digest(edited.Data[DataKey]), taken.Digest, "delete the ConfigMap"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("edited: error is %v, want one with %q", err, part)
		}
	}
}
