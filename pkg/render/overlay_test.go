package render

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A new Kubernetes version may bring a struct that overlay cannot take apart. It then
// belongs into the table of structs that are replaced as a whole.
func TestOverlayCanSetEveryFieldOfThePatchedTypes(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || whole[typ] || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			if !typ.Field(i).IsExported() {
				t.Errorf("%s.%s cannot be set", typ, typ.Field(i).Name)
			}
			check(typ.Field(i).Type)
		}
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[corev1.VolumeSource](), reflect.TypeFor[corev1.VolumeMount](), reflect.TypeFor[corev1.Affinity](),
		reflect.TypeFor[corev1.PodSecurityContext](), reflect.TypeFor[corev1.SecurityContext](),
	} {
		check(typ)
	}
	for typ := range reflect.TypeFor[corev1.VolumeSource]().Fields() {
		if typ.Type.Kind() != reflect.Pointer {
			t.Errorf("source %s of a volume is no pointer, as combineVolume takes it to be", typ.Name)
		}
	}
}
