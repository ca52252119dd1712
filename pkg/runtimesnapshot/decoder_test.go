package runtimesnapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/test/builders"
)

func snapshotWith(t *testing.T, job, runtime string) *corev1.ConfigMap {
	t.Helper()
	return mustEncode(t, builders.TrainJob(job), FromClusterTrainingRuntime(builders.ClusterTrainingRuntime(runtime, builders.TorchSpec())))
}

func TestDecoderDecodesAsDecodeDoesAndEqualSnapshotsOnce(t *testing.T) {
	d := NewDecoder()
	a, b, other := snapshotWith(t, "a", "torch"), snapshotWith(t, "b", "torch"), snapshotWith(t, "c", "jax")
	decoded := map[string]*Runtime{}
	for name, cm := range map[string]*corev1.ConfigMap{"a": a, "b": b, "c": other} {
		got, err := d.Decode(cm)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(mustDecode(t, cm), got); diff != "" {
			t.Errorf("decoded otherwise (-want +got):\n%s", diff)
		}
		decoded[name] = got
	}
	if decoded["a"] != decoded["b"] {
		t.Error("equal snapshots are decoded twice")
	}
	if decoded["a"] == decoded["c"] {
		t.Error("different snapshots are taken for one")
	}
}

func TestDecoderTellsWhatIsWrongEachTime(t *testing.T) {
	d := NewDecoder()
	broken := &corev1.ConfigMap{Data: map[string]string{DataKey: "]"}}
	for _, name := range []string{"one", "two"} {
		broken.Name = name
		if _, err := d.Decode(broken); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name ConfigMap %s: %v", name, err)
		}
	}
	if _, err := d.Decode(&corev1.ConfigMap{}); err == nil {
		t.Error("a ConfigMap without data is decoded")
	}
}

func TestDecoderRemembersNotTooMuch(t *testing.T) {
	d := NewDecoder()
	filler := strings.Repeat("x", 100_000)
	for i := range 60 {
		cm := mustEncode(t, builders.TrainJob("a"), FromClusterTrainingRuntime(withArgs([]string{fmt.Sprint(i), filler}, nil)))
		if _, err := d.Decode(cm); err != nil {
			t.Fatal(err)
		}
		if _, found := d.known.Get(cm.Data[DataKey]); !found || d.known.Weight() > decodedLimit {
			t.Fatalf("remembered: %t; %d bytes in all, at most %d", found, d.known.Weight(), decodedLimit)
		}
	}
}
