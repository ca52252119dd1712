package runtimesnapshot

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

// filler fills any object with random values that its JSON form can hold.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(1, 2).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprint(c.Int63n(1<<40), []string{"", "m", "k", "Mi", "Gi", "e3"}[c.Intn(6)]))
		},
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.NewTime(time.Unix(c.Int63n(1<<32), 0))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Int31())
			if c.Bool() {
				*v = intstr.FromString(c.String(0))
			}
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.Raw, _ = json.Marshal(map[string]any{c.String(0): map[string]any{}})
		},
	)
}

// TestRoundTripKeepsEveryField fills whole runtimes with random values, so that a field
// which the format lost would be noticed, also one that a newer library brings.
func TestRoundTripKeepsEveryField(t *testing.T) {
	for seed := range int64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runtime := builders.TrainingRuntime("r", trainer.TrainingRuntimeSpec{})
			filler(seed).Fill(&runtime.Spec)
			filler(seed).Fill(&runtime.Labels)
			filler(seed).Fill(&runtime.Annotations)
			want := FromTrainingRuntime(runtime.DeepCopy())
			setDefaults(&want.Spec)

			got := mustDecode(t, mustEncode(t, builders.TrainJob("a"), FromTrainingRuntime(runtime)))
			if !equality.Semantic.DeepEqual(want, got) {
				t.Errorf("runtime (-want +got):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// FuzzDecode checks that no content of a ConfigMap makes Decode panic, and that what it
// accepts can be encoded and is then read back the same. When fuzzing give it
// -fuzzminimizetime 10x: shrinking the large seeds takes all the time otherwise.
func FuzzDecode(f *testing.F) {
	job := builders.TrainJob("a")
	for _, spec := range []trainer.TrainingRuntimeSpec{builders.TorchSpec(), builders.MPISpec(), builders.InitializerSpec()} {
		cm, err := Encode(job, FromClusterTrainingRuntime(builders.ClusterTrainingRuntime("r", spec)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(cm.Data[DataKey])
	}
	for _, spec := range []string{
		"null", "{mlPolicy: null}", "{mlPolicy: {mpi: {}}}", "{mlPolicy: {flux: {numProcPerNode: 1.5}}}",
		"{podGroupPolicy: {volcano: {networkTopology: {}}}}", "{template: {spec: {replicatedJobs: [null]}}}",
		"{template: &a {spec: *a}}", "{template: {metadata: {creationTimestamp: 0000-00-00}}}",
	} {
		f.Add(document("TrainingRuntime", spec))
	}
	f.Fuzz(func(t *testing.T, data string) {
		first, err := Decode(&corev1.ConfigMap{Data: map[string]string{DataKey: data}})
		if err != nil {
			return
		}
		cm, err := Encode(job, first)
		if err != nil {
			return // a small document can stand for one that is too large
		}
		second, err := Decode(cm)
		if err != nil {
			t.Fatalf("what was decoded and encoded cannot be decoded: %v\n%s", err, cm.Data[DataKey])
		}
		if !equality.Semantic.DeepEqual(first, second) {
			t.Errorf("decoded, encoded and decoded (-want +got):\n%s", cmp.Diff(first, second))
		}
	})
}
