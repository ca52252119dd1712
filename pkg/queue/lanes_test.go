package queue

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/metrics"
)

// named are keys of the namespace x.
func named(names ...string) []cache.ObjectName {
	var keys []cache.ObjectName
	for _, name := range names {
		keys = append(keys, cache.NewObjectName("x", name))
	}
	return keys
}

// unhurriedByName says that names beginning with "old" are in no hurry.
func unhurriedByName(key cache.ObjectName) bool { return strings.HasPrefix(key.Name, "old") }

func popAll(l interface {
	Len() int
	Pop() cache.ObjectName
}) []cache.ObjectName {
	var keys []cache.ObjectName
	for l.Len() > 0 {
		keys = append(keys, l.Pop())
	}
	return keys
}

func TestKeysInNoHurryGiveWayButNotForEver(t *testing.T) {
	for name, tc := range map[string]struct{ push, want []string }{
		"only hurried ones keep their order":   {[]string{"a", "b", "c"}, []string{"a", "b", "c"}},
		"only unhurried ones keep their order": {[]string{"old1", "old2", "old3"}, []string{"old1", "old2", "old3"}},
		"a hurried one overtakes":              {[]string{"old1", "old2", "a"}, []string{"a", "old1", "old2"}},
		"every fourth is one that is in no hurry": {
			[]string{"old1", "old2", "a", "b", "c", "d", "e", "f", "g"}, []string{"a", "b", "c", "old1", "d", "e", "f", "old2", "g"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLanes(unhurriedByName)
			for _, key := range named(tc.push...) {
				l.Push(key)
			}
			if diff := cmp.Diff(named(tc.want...), popAll(l)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKeyThatIsInAHurryNowMovesForward(t *testing.T) {
	calm := map[string]bool{"b": true, "c": true}
	l := newLanes(func(key cache.ObjectName) bool { return calm[key.Name] })
	for _, key := range named("b", "c", "a") {
		l.Push(key)
	}
	calm["c"] = false
	l.Touch(named("c")[0])
	l.Touch(named("b")[0])
	l.Touch(named("nobody")[0])
	if l.Len() != 3 {
		t.Errorf("%d keys wait, want 3", l.Len())
	}
	if diff := cmp.Diff(named("a", "c", "b"), popAll(l)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	// The entry it has left behind means nothing, also when it comes back.
	calm["c"] = true
	l.Push(named("c")[0])
	l.Push(named("b")[0])
	if diff := cmp.Diff(named("c", "b"), popAll(l)); diff != "" {
		t.Errorf("order afterwards (-want +got):\n%s", diff)
	}
}

func TestNoKeyIsLostOrDoubledWhateverItsHurry(t *testing.T) {
	for seed := range 200 {
		random := rand.New(rand.NewSource(int64(seed)))
		l := newLanes(func(cache.ObjectName) bool { return random.Intn(2) == 0 })
		waiting := map[cache.ObjectName]bool{}
		for range 500 {
			key := named(fmt.Sprint(random.Intn(20)))[0]
			switch {
			case random.Intn(3) == 0 && len(waiting) > 0:
				got := l.Pop()
				if !waiting[got] {
					t.Fatalf("seed %d: %s came out and was not waiting", seed, got)
				}
				delete(waiting, got)
			case waiting[key]:
				l.Touch(key)
			default:
				l.Push(key)
				waiting[key] = true
			}
			if l.Len() != len(waiting) {
				t.Fatalf("seed %d: %d keys wait, want %d", seed, l.Len(), len(waiting))
			}
		}
		for _, key := range popAll(l) {
			delete(waiting, key)
		}
		if len(waiting) > 0 {
			t.Fatalf("seed %d: %v were lost", seed, waiting)
		}
	}
}

func TestAQueueSyncsHurriedKeysFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []cache.ObjectName
		q, err := New(Config{
			Name: metrics.QueueJobSet, Clock: clock.RealClock{}, Background: unhurriedByName,
			Sync: func(_ context.Context, key cache.ObjectName) (Result, error) {
				order = append(order, key)
				return Result{}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range named("old1", "old2", "old1", "new", "old3") {
			q.Add(key)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Run(ctx, 1)
		}()
		synctest.Wait()
		cancel()
		<-done
		if diff := cmp.Diff(named("new", "old1", "old2", "old3"), order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}
