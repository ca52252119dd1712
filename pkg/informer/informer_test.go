package informer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

var ownerKind = schema.GroupKind{Group: "train.example.com", Kind: "Job"}

// child is an object in namespace x, with the controllers given as
// apiVersion/kind/name/uid, if any.
func child(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "x", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", OwnerReferences: owners,
	}}
}

func owner(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: ptr.To(true)}
}

func ours(name string) metav1.OwnerReference { return owner("train.example.com/v1", "Job", name) }

func tombstone(key string, obj any) cache.DeletedFinalStateUnknown {
	return cache.DeletedFinalStateUnknown{Key: key, Obj: obj}
}

func TestKeys(t *testing.T) {
	notController := ours("a")
	notController.Controller = nil
	type answer struct {
		Key cache.ObjectName
		OK  bool
	}
	none := answer{}
	is := func(name string) answer { return answer{cache.NewObjectName("x", name), true} }
	for name, tc := range map[string]struct {
		obj      any
		own, its answer
	}{
		"an object of ours":                            {obj: child("a-snapshot", ours("a")), own: is("a-snapshot"), its: is("a")},
		"an owner of another version is the same kind": {obj: child("c", owner("train.example.com/v2", "Job", "a")), own: is("c"), its: is("a")},
		"an owner of another group is a stranger":      {obj: child("c", owner("batch/v1", "Job", "a")), own: is("c"), its: none},
		"an owner of another kind is a stranger":       {obj: child("c", owner("train.example.com/v1", "Plan", "a")), own: is("c"), its: none},
		"an owner with a broken version is a stranger": {obj: child("c", owner("a/b/c", "Job", "a")), own: is("c"), its: none},
		"an owner that is not the controller":          {obj: child("c", notController), own: is("c"), its: none},
		"an object without owners":                     {obj: child("c"), own: is("c"), its: none},
		"the controller among several owners":          {obj: child("c", notController, ours("b")), own: is("c"), its: is("b")},
		"a tombstone with the last state":              {obj: tombstone("x/c", child("c", ours("a"))), own: is("c"), its: is("a")},
		"a tombstone of a stranger's object":           {obj: tombstone("x/c", child("c")), own: is("c"), its: none},
		"a tombstone without a state":                  {obj: tombstone("x/a", nil), own: is("a"), its: is("a")},
		"a tombstone with a nil object of a type":      {obj: tombstone("x/a", (*corev1.ConfigMap)(nil)), own: is("a"), its: is("a")},
		"a tombstone without a readable key":           {obj: tombstone("x/y/z", nil), own: none, its: none},
		"a tombstone without anything":                 {obj: tombstone("", nil), own: none, its: none},
		"nil":                                          {obj: nil, own: none, its: none},
		"a nil object of a type":                       {obj: (*corev1.ConfigMap)(nil), own: none, its: none},
		"something that is no object":                  {obj: "x/a", own: none, its: none},
	} {
		t.Run(name, func(t *testing.T) {
			var own, its answer
			own.Key, own.OK = Key(tc.obj)
			its.Key, its.OK = OwnerKey(tc.obj, ownerKind)
			if diff := cmp.Diff(tc.own, own); diff != "" {
				t.Errorf("own key (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.its, its); diff != "" {
				t.Errorf("owner's key (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeyOfAClusterScopedObject(t *testing.T) {
	key, ok := Key(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if want := cache.NewObjectName("", "n"); !ok || key != want {
		t.Errorf("got %v, %v, want %v", key, ok, want)
	}
}

func TestHandler(t *testing.T) {
	with := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		object := child("c", ours("a"))
		object.ResourceVersion = "2"
		change(object)
		return object
	}
	before := child("c", ours("a"))
	for name, tc := range map[string]struct {
		before, after any
		old           bool // the old state is handed on too
		skipped       bool
	}{
		"any write":                            {before, with(func(*corev1.ConfigMap) {}), false, false},
		"a resync":                             {before, before.DeepCopy(), false, true},
		"an object without a resource version": {child("c"), with(func(c *corev1.ConfigMap) { c.ResourceVersion = "" }), true, false},
		"a new owner of the same name":         {before, with(func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "new" }), true, false},
		"a new owner of another name":          {before, with(func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = "b" }), true, false},
		"the owner is gone":                    {before, with(func(c *corev1.ConfigMap) { c.OwnerReferences = nil }), true, false},
		"an owner has come":                    {child("c"), with(func(*corev1.ConfigMap) {}), true, false},
		"a deletion and a creation in one":     {before, with(func(c *corev1.ConfigMap) { c.UID = "new" }), true, false},
		"something that is no object":          {"before", "after", false, false},
	} {
		t.Run("an update: "+name, func(t *testing.T) {
			var got, want []any
			if !tc.skipped {
				if tc.old {
					want = append(want, tc.before)
				}
				want = append(want, tc.after)
			}
			Handler(func(obj any) { got = append(got, obj) }).OnUpdate(tc.before, tc.after)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("handed on (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("an addition and a deletion are handed on as they are", func(t *testing.T) {
		var got []any
		handler := Handler(func(obj any) { got = append(got, obj) })
		handler.OnAdd(before, true)
		handler.OnDelete(tombstone("x/c", nil))
		if diff := cmp.Diff([]any{before, tombstone("x/c", nil)}, got); diff != "" {
			t.Errorf("handed on (-want +got):\n%s", diff)
		}
	})
}

func TestTransform(t *testing.T) {
	full := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:          "c",
				Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "mine": "yes"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			},
			Data: map[string]string{"k": "v"},
		}
	}
	stripped := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{"mine": "yes"}},
		Data:       map[string]string{"k": "v"},
	}
	loose := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"name":        "c",
		"annotations": map[string]any{corev1.LastAppliedConfigAnnotation: "{}", "mine": "yes"},
	}}}
	applied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}}
	for name, tc := range map[string]struct{ in, want any }{
		"a typed object is stripped":       {full(), stripped},
		"a stripped object is left alone":  {stripped.DeepCopy(), stripped},
		"annotations that become empty go": {applied, &corev1.ConfigMap{}},
		"a bare object is left alone":      {child("c"), child("c")},
		"a tombstone is left alone":        {tombstone("c", full()), tombstone("c", full())},
		"an empty tombstone is left alone": {tombstone("c", nil), tombstone("c", nil)},
		"nil stays nil":                    {nil, nil},
		"a nil object stays one":           {(*corev1.ConfigMap)(nil), (*corev1.ConfigMap)(nil)},
		"anything else is left alone":      {42, 42},
		"an untyped object is stripped": {loose, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": "c", "annotations": map[string]any{"mine": "yes"},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Transform(Strip)(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("after the transform (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrimJobSet(t *testing.T) {
	full := func(owners ...metav1.OwnerReference) *jobsetv1alpha2.JobSet {
		return &jobsetv1alpha2.JobSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "x", Name: "a", UID: "u", ResourceVersion: "7", Generation: 3, OwnerReferences: owners,
				Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"a": "v"}, Finalizers: []string{"f"},
				DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
			},
			Spec: jobsetv1alpha2.JobSetSpec{
				Suspend:        ptr.To(true),
				ManagedBy:      ptr.To("somebody"),
				ReplicatedJobs: []jobsetv1alpha2.ReplicatedJob{{Name: "node"}},
			},
			Status: jobsetv1alpha2.JobSetStatus{TerminalState: "Completed"},
		}
	}
	kept := full(ours("a"))
	kept.Spec = jobsetv1alpha2.JobSetSpec{Suspend: ptr.To(true)}
	shell := func(owners ...metav1.OwnerReference) *jobsetv1alpha2.JobSet {
		return &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: "a", UID: "u", ResourceVersion: "7", OwnerReferences: owners,
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
		}}
	}
	for name, tc := range map[string]struct{ in, want metav1.Object }{
		"ours keeps metadata, suspend and status": {full(ours("a")), kept},
		"a trimmed one of ours stays as it is":    {kept.DeepCopy(), kept},
		"a stranger's keeps name and owner":       {full(owner("batch/v1", "Job", "a")), shell(owner("batch/v1", "Job", "a"))},
		"nobody's keeps its name":                 {full(), shell()},
		"another kind is not touched":             {child("c"), child("c")},
	} {
		t.Run(name, func(t *testing.T) {
			TrimJobSet(ownerKind)(tc.in)
			if diff := cmp.Diff(tc.want, tc.in); diff != "" {
				t.Errorf("after the trim (-want +got):\n%s", diff)
			}
		})
	}
}

// The whole path of a deletion that was missed: the watch is cut, the object
// goes, the next list does not have it.
func TestDeletionMissedByTheWatchReachesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFlakySource(child("c", ours("a")), child("d", ours("b")))
		informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
		var got []string
		if _, err := informer.AddEventHandler(Handler(func(obj any) {
			kind := "object"
			if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				kind = "tombstone"
			}
			if key, ok := OwnerKey(obj, ownerKind); ok {
				got = append(got, kind+" of "+key.String())
			}
		})); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(time.Minute)
		source.cut(child("d", ours("b")))
		time.Sleep(time.Minute)
		cancel()
		<-done
		want := "object of x/a, object of x/b, tombstone of x/a"
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
