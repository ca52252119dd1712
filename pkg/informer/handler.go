package informer

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Handler calls enqueue with the object of every event: the new state after an
// addition or an update, the last state or a tombstone after a deletion.
//
// Updates without a change (a resync, or a list after an interrupted watch) are
// left out, and nothing else: what matters is for the sync to judge. An update
// that takes the object from one controller to another, or stands for a deletion
// and a re-creation, yields the old state as well, since its owner lost a child.
func Handler(enqueue func(obj any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			if unchanged(before, after) {
				return
			}
			if changedHands(before, after) {
				enqueue(before)
			}
			enqueue(after)
		},
		DeleteFunc: enqueue,
	}
}

// AddHandlers registers a Handler for each informer.
func AddHandlers(enqueue map[cache.SharedIndexInformer]func(obj any)) error {
	var errs []error
	for informer, add := range enqueue {
		if _, err := informer.AddEventHandler(Handler(add)); err != nil {
			errs = append(errs, fmt.Errorf("add event handler: %w", err))
		}
	}
	return errors.Join(errs...)
}

// unchanged compares resource versions, which change with every write. Objects
// without one (in tests) never count as unchanged.
func unchanged(before, after any) bool {
	a, b := asObject(before), asObject(after)
	return a != nil && b != nil &&
		a.GetUID() == b.GetUID() &&
		a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion()
}

func changedHands(before, after any) bool {
	a, b := asObject(before), asObject(after)
	if a == nil || b == nil {
		return false
	}
	if a.GetUID() != b.GetUID() {
		return true
	}
	was, is := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if was == nil || is == nil {
		return was != is
	}
	return was.UID != is.UID || was.Name != is.Name
}
