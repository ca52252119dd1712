package runtimesnapshot

import (
	"reflect"
	"time"
)

// weightOf is about how many bytes a decoded runtime takes. By the length of its text
// there is no telling: an argument takes as much as its text, an empty container twenty
// times as much.
func weightOf(runtime *Runtime) int { return int(beyond(reflect.ValueOf(runtime))) }

// beyond is what a value takes besides its own few words.
func beyond(v reflect.Value) (bytes uintptr) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			bytes = v.Elem().Type().Size() + beyond(v.Elem())
		}
	case reflect.String:
		bytes = uintptr(v.Len())
	case reflect.Slice:
		bytes = uintptr(v.Cap()) * v.Type().Elem().Size()
		for i := range v.Len() {
			bytes += beyond(v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			// A map has some room left for each entry it holds.
			bytes += 2*(v.Type().Key().Size()+v.Type().Elem().Size()) + beyond(entries.Key()) + beyond(entries.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0 // shares its location with all others
		}
		for i := range v.NumField() {
			bytes += beyond(v.Field(i))
		}
	}
	return bytes
}
