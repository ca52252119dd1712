package informer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Key returns the key of an object or of the object that a tombstone stands
// for. It reports false for anything else.
func Key(obj any) (cache.ObjectName, bool) {
	if object := Object(obj); object != nil {
		return cache.MetaObjectToName(object), true
	}
	return tombstoneKey(obj)
}

// OwnerKey returns the key of the object's controller if that is of the given
// group and kind, in any version. The owner is known by name, whatever its UID:
// if it was deleted and made again, the new one has to hear of the old one's
// child going away.
//
// A tombstone without a state says nothing about owners. OwnerKey then returns
// the key of the deleted object itself, which is its owner's for kinds whose
// objects are named after their owner; a key too many costs one idle sync.
func OwnerKey(obj any, owner schema.GroupKind) (cache.ObjectName, bool) {
	object := Object(obj)
	if object == nil {
		return tombstoneKey(obj)
	}
	if !controlledBy(object, owner) {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(object.GetNamespace(), metav1.GetControllerOfNoCopy(object).Name), true
}

// Object returns the object that a handler was given, be it bare or the last
// known state in a tombstone, and nil if there is none.
func Object(obj any) metav1.Object {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return asObject(obj)
}

// tombstoneKey reads the key that every tombstone has, even one without a state.
func tombstoneKey(obj any) (cache.ObjectName, bool) {
	tombstone, ok := obj.(cache.DeletedFinalStateUnknown)
	if !ok {
		return cache.ObjectName{}, false
	}
	key, err := cache.ParseObjectName(tombstone.Key)
	return key, err == nil && key.Name != ""
}

func controlledBy(object metav1.Object, owner schema.GroupKind) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != owner.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == owner.Group
}
