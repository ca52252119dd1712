// Package fakes makes the generated fake clients behave like an API server where unit
// tests depend on it.
//
// It knows clients and reactions. What a test expects of them is the test's affair.
package fakes

import (
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// CheckPreconditions makes a fake client refuse, with a conflict, patches and deletions
// that were decided on another version of the object than the one it has.
func CheckPreconditions(client *trainerfake.Clientset) {
	check := func(action clienttesting.Action, name string, want metav1.Preconditions) (bool, runtime.Object, error) {
		object, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), name)
		if err != nil {
			return true, nil, err
		}
		live, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		if (want.UID != nil && *want.UID != live.GetUID()) || (want.ResourceVersion != nil && *want.ResourceVersion != live.GetResourceVersion()) {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), name, errors.New("the object has been modified"))
		}
		return false, nil, nil
	}
	client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteAction)
		if options := deletion.GetDeleteOptions(); options.Preconditions != nil {
			return check(action, deletion.GetName(), *options.Preconditions)
		}
		return false, nil, nil
	})
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		var sent struct {
			Metadata metav1.Preconditions `json:"metadata"`
		}
		if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
			return true, nil, err
		}
		return check(action, patch.GetName(), sent.Metadata)
	})
}
