package informer

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNotes(t *testing.T) {
	key := cache.NewObjectName("x", "a")
	created := child("c", ours("a"))
	earlier := created.DeepCopy()
	earlier.UID = "uid-of-an-earlier-c"
	type notes = *Notes[*corev1.ConfigMap]
	for name, tc := range map[string]struct {
		then func(notes, *clocktesting.FakePassiveClock)
		want *corev1.ConfigMap
	}{
		"an object is there once it is put": {
			then: func(notes, *clocktesting.FakePassiveClock) {}, want: created,
		},
		"it goes when the cache shows it": {
			then: func(n notes, _ *clocktesting.FakePassiveClock) { n.Observe(key, created.DeepCopy()) },
		},
		"it goes when its deletion is seen": {
			then: func(n notes, _ *clocktesting.FakePassiveClock) { n.Observe(key, tombstone("x/c", created)) },
		},
		"it goes when a tombstone does not say what was deleted": {
			then: func(n notes, _ *clocktesting.FakePassiveClock) { n.Observe(key, tombstone("x/c", nil)) },
		},
		"it stays when an earlier object of the name goes": {
			then: func(n notes, _ *clocktesting.FakePassiveClock) { n.Observe(key, earlier) }, want: created,
		},
		"it stays when something happens under another key": {
			then: func(n notes, _ *clocktesting.FakePassiveClock) { n.Observe(cache.NewObjectName("x", "b"), created) }, want: created,
		},
		"it is believed for just under thirty seconds": {
			then: func(_ notes, c *clocktesting.FakePassiveClock) { c.SetTime(noon.Add(NoteLifetime - 1)) }, want: created,
		},
		"it is not believed any longer than that": {
			then: func(_ notes, c *clocktesting.FakePassiveClock) { c.SetTime(noon.Add(NoteLifetime)) },
		},
		"a later note takes its place and has its own time": {
			then: func(n notes, c *clocktesting.FakePassiveClock) {
				c.SetTime(noon.Add(20 * time.Second))
				n.Put(key, earlier)
				c.SetTime(noon.Add(40 * time.Second))
			}, want: earlier,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(noon)
			n := NewNotes[*corev1.ConfigMap](clock)
			n.Put(key, created)
			tc.then(n, clock)
			got, ok := n.Get(key)
			if ok != (tc.want != nil) {
				t.Errorf("found: %v, want %v", ok, tc.want != nil)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the object noted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotesThatNobodyAsksForAreSweptAway(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	n := NewNotes[*corev1.ConfigMap](clock)
	most := 0
	for i := range 600 { // one a second for ten minutes
		clock.SetTime(noon.Add(time.Duration(i) * time.Second))
		n.Put(cache.NewObjectName("x", fmt.Sprint(i)), child("c"))
		most = max(most, len(n.notes))
	}
	if most > 61 {
		t.Errorf("%d notes kept at some time, want those of two lifetimes at most", most)
	}
}

func TestNotesAreSafeForConcurrentUse(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	n := NewNotes[*corev1.ConfigMap](clock)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 100 {
				key := cache.NewObjectName("x", fmt.Sprint(i%7))
				n.Put(key, child("c"))
				n.Get(key)
				n.Observe(key, child("c"))
				clock.SetTime(noon.Add(time.Duration(worker*i) * time.Second))
			}
		})
	}
	group.Wait()
}
