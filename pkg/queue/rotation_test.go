package queue

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

func key(path string) cache.ObjectName {
	namespace, name, _ := strings.Cut(path, "/")
	return cache.NewObjectName(namespace, name)
}

func TestNamespacesTakeTurns(t *testing.T) {
	for name, tc := range map[string]struct{ push, want []string }{
		"one namespace keeps the order of arrival": {[]string{"a/1", "a/2", "a/3"}, []string{"a/1", "a/2", "a/3"}},
		"two namespaces alternate":                 {[]string{"a/1", "a/2", "a/3", "b/1", "b/2"}, []string{"a/1", "b/1", "a/2", "b/2", "a/3"}},
		"a third one comes in where it arrives":    {[]string{"a/1", "b/1", "a/2", "c/1", "b/2"}, []string{"a/1", "b/1", "c/1", "a/2", "b/2"}},
		"what is in no hurry takes turns as well":  {[]string{"a/old1", "a/old2", "b/old1"}, []string{"a/old1", "b/old1", "a/old2"}},
		"somebody's new job comes before everybody's clean-up": {
			[]string{"a/old1", "b/old1", "a/1", "c/1"}, []string{"a/1", "c/1", "a/old1", "b/old1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLanes(unhurriedByName)
			for _, path := range tc.push {
				l.Push(key(path))
			}
			var got []string
			for _, k := range popAll(l) {
				got = append(got, k.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// A namespace creates five thousand jobs at once, another one creates one.
func TestABurstOfOneNamespaceDelaysAnotherByOneJob(t *testing.T) {
	l := newLanes(nil)
	for i := range 5000 {
		l.Push(key(fmt.Sprint("burst/", i)))
	}
	for range 100 {
		l.Pop()
	}
	l.Push(key("other/1"))
	next := []cache.ObjectName{l.Pop(), l.Pop()}
	if !slices.Contains(next, key("other/1")) {
		t.Errorf("the next two are %v, want other/1 to be one of them", next)
	}
}

func TestNoNamespaceIsServedTwiceBeforeOneThatWaits(t *testing.T) {
	for seed := range 100 {
		random := rand.New(rand.NewSource(int64(seed)))
		l := newLanes(nil)
		waiting := map[string]int{} // keys of each namespace
		served := map[string]int{}  // how often others were served since a namespace was last, or came
		next := 0
		for range 2000 {
			if random.Intn(2) == 0 || l.Len() == 0 {
				namespace := fmt.Sprint("n", random.Intn(6))
				next++
				l.Push(cache.NewObjectName(namespace, fmt.Sprint(next)))
				if waiting[namespace]++; waiting[namespace] == 1 {
					served[namespace] = 0
				}
				continue
			}
			got := l.Pop().Namespace
			waiting[got]--
			served[got] = 0
			for namespace, keys := range waiting {
				if namespace == got || keys == 0 {
					continue
				}
				if served[namespace]++; served[namespace] > 5 {
					t.Fatalf("seed %d: %s waits while others are served %d times", seed, namespace, served[namespace])
				}
			}
		}
	}
}
