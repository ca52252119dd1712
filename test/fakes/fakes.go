// Package fakes makes the generated fake clients behave like an API server where unit
// tests depend on it.
//
// It knows clients and reactions. What a test expects of them is the test's affair.
package fakes

import (
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	trainerfake "github.com/trainjob/controller/generated/clientset/versioned/fake"
)

// Trainer is a fake client of the group's kinds that gives an object a new
// resourceVersion with each patch, as an API server does.
func Trainer(objects ...runtime.Object) *trainerfake.Clientset {
	client := trainerfake.NewClientset(objects...)
	var version atomic.Int64
	store := clienttesting.ObjectReaction(client.Tracker())
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		handled, object, err := store(action)
		if err != nil || object == nil {
			return handled, object, err
		}
		object = object.DeepCopyObject()
		access, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		access.SetResourceVersion("fake-" + strconv.FormatInt(version.Add(1), 10))
		return true, object, client.Tracker().Update(action.GetResource(), object, action.GetNamespace())
	})
	return client
}
