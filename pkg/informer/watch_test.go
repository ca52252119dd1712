package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktest "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// flakySource lists a set of objects and has a watch that can be cut.
type flakySource struct {
	mu       sync.Mutex
	objects  []*corev1.ConfigMap
	watching *watch.FakeWatcher
	version  int
}

func newFlakySource(objects ...*corev1.ConfigMap) *flakySource {
	return &flakySource{objects: objects, version: 1}
}

func (s *flakySource) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object.DeepCopy())
	}
	return list, nil
}

func (s *flakySource) Watch(metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = watch.NewFakeWithChanSize(1, false)
	return s.watching, nil
}

// IsWatchListSemanticsUnSupported makes reflectors list first and then watch.
func (s *flakySource) IsWatchListSemanticsUnSupported() bool { return true }

// cut changes the set of objects without an event and ends the watch the way a
// server does that no longer has the version to go on from.
func (s *flakySource) cut(left ...*corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = left
	s.version++
	gone := apierrors.NewResourceExpired("too old").Status()
	s.watching.Error(&gone)
}

func TestConfigMapsAsksForTheLabelAndTrimsWhatItGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := child("mine", ours("a"))
		mine.Labels = map[string]string{"ours": "a"}
		mine.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		mine.Data = configMap("", "x: 1").Data
		equal := configMap("equal", "x: 1")
		equal.OwnerReferences = mine.OwnerReferences
		equal.Namespace, equal.Labels = mine.Namespace, mine.Labels
		client := fake.NewClientset(mine, equal, child("other"))
		informer, err := ConfigMaps(client, clock.RealClock{}, "ours", ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(time.Second)
		for _, action := range client.Actions() {
			var selector string
			switch action := action.(type) {
			case ktest.ListActionImpl:
				selector = action.ListRestrictions.Labels.String()
			case ktest.WatchActionImpl:
				selector = action.WatchRestrictions.Labels.String()
			}
			if selector != "ours" {
				t.Errorf("%s with the selector %q", action.GetVerb(), selector)
			}
		}
		found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, "x")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Fatal("the cache is empty")
		}
		// Those with data first.
		slices.SortFunc(found, func(a, b any) int { return len(b.(*corev1.ConfigMap).Data) - len(a.(*corev1.ConfigMap).Data) })
		for _, obj := range found {
			object := Object(obj)
			if object.GetName() == "mine" && object.GetManagedFields() != nil {
				t.Error("managed fields were kept")
			}
			if cm := obj.(*corev1.ConfigMap); len(cm.Data) > 0 && memoryOf(cm) != memoryOf(found[0].(*corev1.ConfigMap)) {
				t.Error("equal data takes memory twice")
			}
		}
		cancel()
		<-done
	})
}

func TestPrepareRefusesAnInformerThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informer := cache.NewSharedIndexInformer(newFlakySource(), &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(time.Second)
		if err := Prepare(informer, clock.RealClock{}, Strip); err == nil {
			t.Error("it was accepted")
		}
		cancel()
		<-done
	})
}

func TestWatchErrors(t *testing.T) {
	refused := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone}}
	type event struct {
		at  time.Duration
		err error
	}
	for name, tc := range map[string]struct {
		stopped bool
		events  []event
		errors  []string
	}{
		"watches that end in the usual ways are no errors": {
			events: []event{
				{0, io.EOF}, {0, fmt.Errorf("watch: %w", io.ErrUnexpectedEOF)},
				{0, apierrors.NewResourceExpired("too old")}, {0, gone},
			},
		},
		"trouble is logged at once and then once in five minutes": {
			events: []event{{0, refused}, {time.Second, refused}, {time.Minute, refused}, {5 * time.Minute, refused}, {6 * time.Minute, refused}},
			errors: []string{"connection refused, 0 before", "connection refused, 2 before"},
		},
		"another kind of trouble is logged at once as well": {
			events: []event{{0, refused}, {time.Second, forbidden}, {2 * time.Second, forbidden}, {3 * time.Second, refused}},
			errors: []string{"connection refused, 0 before", "configmaps is forbidden: no, 0 before"},
		},
		"nothing is logged while the informer is being stopped": {
			stopped: true, events: []event{{0, refused}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			defer cancel()
			if tc.stopped {
				cancel()
			}
			clock := clocktesting.NewFakePassiveClock(noon)
			handle := WatchErrors(clock)
			reflector := cache.NewReflector(newFlakySource(), &corev1.ConfigMap{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
			for _, event := range tc.events {
				clock.SetTime(noon.Add(event.at))
				handle(ctx, reflector, event.err)
			}
			var got []string
			for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
				got = append(got, fmt.Sprintf("%v, %v before", entry.Err, entry.ParameterKVList[1]))
			}
			if diff := cmp.Diff(tc.errors, got); diff != "" {
				t.Errorf("error lines (-want +got):\n%s", diff)
			}
		})
	}
}
