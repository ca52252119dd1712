package render

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// whole lists the structs that are replaced as a whole: scalars in the shape of a
// struct, and structs of which one field decides what the others may be.
var whole = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():      true,
	reflect.TypeFor[metav1.Time]():            true,
	reflect.TypeFor[metav1.MicroTime]():       true,
	reflect.TypeFor[metav1.LabelSelector]():   true,
	reflect.TypeFor[metav1.FieldsV1]():        true,
	reflect.TypeFor[intstr.IntOrString]():     true,
	reflect.TypeFor[corev1.SeccompProfile]():  true,
	reflect.TypeFor[corev1.AppArmorProfile](): true,
	reflect.TypeFor[corev1.NodeSelector]():    true,
}

// overlay lays over onto base field by field: what over leaves out stays, maps are
// merged per key, lists and scalars are replaced. It goes by reflection, so that the
// fields of newer Kubernetes versions are not silently lost.
func overlay[T any](base, over *T) *T {
	if over == nil {
		return base
	}
	if base == nil {
		return over
	}
	overlayStruct(reflect.ValueOf(base).Elem(), reflect.ValueOf(over).Elem())
	return base
}

func overlayStruct(base, over reflect.Value) {
	for i := range over.NumField() {
		b, o := base.Field(i), over.Field(i)
		switch {
		case isUnset(o):
		case o.Kind() == reflect.Struct && !whole[o.Type()]:
			overlayStruct(b, o)
		case o.Kind() == reflect.Pointer && !b.IsNil() && o.Elem().Kind() == reflect.Struct && !whole[o.Elem().Type()]:
			overlayStruct(b.Elem(), o.Elem())
		case o.Kind() == reflect.Map && !b.IsNil():
			for _, key := range o.MapKeys() {
				b.SetMapIndex(key, o.MapIndex(key))
			}
		default:
			b.Set(o)
		}
	}
}

// isUnset reports whether a field says nothing. Empty lists and maps do not survive
// the way to the API server and back, so they mean the same as absent ones.
func isUnset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func volumeName(v *corev1.Volume) string { return v.Name }

// combineVolume changes the details of a volume's source, or replaces the source by
// one of another kind: a volume has one source.
func combineVolume(base, over *corev1.Volume) {
	old, source := reflect.ValueOf(&base.VolumeSource).Elem(), reflect.ValueOf(&over.VolumeSource).Elem()
	if source.IsZero() {
		return
	}
	for i := range source.NumField() {
		if old.Field(i).IsNil() != source.Field(i).IsNil() {
			base.VolumeSource = over.VolumeSource
			return
		}
	}
	overlayStruct(old, source)
}

func mountPath(m *corev1.VolumeMount) string { return m.MountPath }

// combineMount changes the details of a mount. Another volume at the same path is
// another mount: the old one's details would be wrong for it.
func combineMount(base, over *corev1.VolumeMount) {
	if base.Name != over.Name {
		*base = *over
		return
	}
	overlayStruct(reflect.ValueOf(base).Elem(), reflect.ValueOf(over).Elem())
}
