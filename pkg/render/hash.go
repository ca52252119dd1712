package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// hashVersion tells hashes of this form from those of earlier builds, which were taken of
// what a library made of the patches: a field that Kubernetes adds could change them.
const hashVersion = "2-"

// PatchesHash is the hash of spec.runtimePatches that is kept on a JobSet: equal
// hashes mean that suspending and resuming need not touch the pod templates. It is
// taken of the input, so that a newer controller sees no change where the user made
// none.
//
// `time` does not count, nor do entries that change nothing: a manager that empties
// its entry and one that removes it say the same. The order counts, because the
// patches are applied in it.
func PatchesHash(patches []v1alpha1.RuntimePatch) string {
	sum := sha256.New()
	hashValue(sum, reflect.ValueOf(effective(patches)))
	return hashVersion + hex.EncodeToString(sum.Sum(nil))
}

// BuiltFrom says whether the hash on a JobSet is that of the patches, in whatever form it
// was written: a JobSet of an earlier build is not written to only to change the form.
func BuiltFrom(built string, patches []v1alpha1.RuntimePatch) bool {
	if strings.HasPrefix(built, hashVersion) {
		return built == PatchesHash(patches)
	}
	return built != "" && built == marshalledHash(patches)
}

// marshalledHash is the hash as earlier builds have written it.
func marshalledHash(patches []v1alpha1.RuntimePatch) string {
	// encoding/json sorts the keys of maps, so equal patches give equal bytes. It has no
	// error for these types: they are plain data.
	data, _ := json.Marshal(effective(patches))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// effective are the entries that change something, without their time.
func effective(patches []v1alpha1.RuntimePatch) []v1alpha1.RuntimePatch {
	list := make([]v1alpha1.RuntimePatch, 0, len(patches))
	for i := range patches {
		if !isEmptyPatch(&patches[i]) {
			patch := patches[i]
			patch.Time = nil
			list = append(list, patch)
		}
	}
	return list
}

// hashValue writes what a value says: fields that are set, under their JSON names and in
// the order of these, so that neither new fields nor another order in a library's structs
// make a difference. Every piece is written with its length.
func hashValue(to hash.Hash, v reflect.Value) {
	if quantity, ok := v.Interface().(resource.Quantity); ok {
		hashText(to, quantity.String()) // not of its fields, which remember how it was written
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			hashValue(to, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		hashText(to, fmt.Sprint("list of ", v.Len()))
		for i := range v.Len() {
			hashValue(to, v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		hashText(to, fmt.Sprint("map of ", len(keys)))
		for _, key := range keys {
			hashText(to, key.String())
			hashValue(to, v.MapIndex(key))
		}
	case reflect.Struct:
		hashStruct(to, v)
	default:
		hashText(to, fmt.Sprint(v.Interface()))
	}
}

func hashStruct(to hash.Hash, v reflect.Value) {
	set := map[string]reflect.Value{}
	setFields(v, set)
	hashText(to, fmt.Sprint("struct of ", len(set)))
	for _, name := range sortedKeys(set) {
		hashText(to, name)
		hashValue(to, set[name])
	}
}

// setFields collects the exported fields that say something, those of embedded structs
// as the struct's own.
func setFields(v reflect.Value, set map[string]reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !field.IsExported() || name == "-":
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			setFields(v.Field(i), set)
		case isUnset(v.Field(i)):
		case name == "":
			set[field.Name] = v.Field(i)
		default:
			set[name] = v.Field(i)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func hashText(to hash.Hash, text string) { _, _ = fmt.Fprintf(to, "%d:%s", len(text), text) }
