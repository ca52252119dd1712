package informer

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trainjob/controller/pkg/bytecache"
)

// configMap holds data in memory of its own.
func configMap(name, data string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{"runtime": strings.Clone(data)}}
	cm.Name = name
	return cm
}

func memoryOf(cm *corev1.ConfigMap) *byte { return unsafe.StringData(cm.Data["runtime"]) }

func TestEqualDataIsHeldOnce(t *testing.T) {
	trim := Transform(ShareData())
	a, b, other := configMap("a", "x: 1"), configMap("b", "x: 1"), configMap("c", "x: 2")
	for _, cm := range []*corev1.ConfigMap{a, b, other} {
		before := cm.DeepCopy()
		if _, err := trim(cm); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, cm); diff != "" {
			t.Errorf("the transform changed what the object says (-want +got):\n%s", diff)
		}
	}
	if memoryOf(a) != memoryOf(b) {
		t.Error("equal data takes memory twice")
	}
	if memoryOf(a) == memoryOf(other) {
		t.Error("different data shares memory")
	}
}

func TestAnObjectThatComesByAgainIsNotWrittenTo(t *testing.T) {
	trim := Transform(ShareData())
	cm := configMap("a", "x: 1")
	if _, err := trim(cm); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // a reader; the race detector tells of a writer beside it
		defer close(done)
		for range 1000 {
			_ = cm.Data["runtime"]
		}
	}()
	for range 1000 {
		if _, err := trim(cm); err != nil {
			t.Fatal(err)
		}
	}
	<-done
}

func TestWhatIsRememberedForSharingIsBounded(t *testing.T) {
	texts := bytecache.New[string, string](shareLimit)
	trim := shareData(texts)
	for i := range 40 {
		trim(configMap("a", fmt.Sprint(i)+strings.Repeat("x", 1<<20)))
		if weight := texts.Weight(); weight > shareLimit || weight < 1<<20 {
			t.Fatalf("%d bytes are remembered, want some and at most %d", weight, shareLimit)
		}
	}
}
