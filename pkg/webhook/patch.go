package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one of those of RFC 6902.
type operation map[string]any

func replace(path string, value any) operation {
	return operation{"op": "replace", "path": path, "value": value}
}

func add(path string, value any) operation {
	return operation{"op": "add", "path": path, "value": value}
}

func remove(path string) operation { return operation{"op": "remove", "path": path} }

// operationsBetween are those that make after out of before, none if they are equal.
// They speak only of what differs, so that fields this program does not know, which are
// in neither, are left alone.
func operationsBetween(before, after any) ([]operation, error) {
	old, err := plain(before)
	if err != nil {
		return nil, err
	}
	new, err := plain(after)
	if err != nil {
		return nil, err
	}
	return difference(nil, "", old, new), nil
}

// plain is an object as maps, lists and scalars.
func plain(object any) (any, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber() // whole numbers stay whole
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return value, nil
}

// difference appends the operations that make new out of old, at a path.
func difference(operations []operation, path string, old, new any) []operation {
	if reflect.DeepEqual(old, new) {
		return operations
	}
	switch old := old.(type) {
	case map[string]any:
		if new, ok := new.(map[string]any); ok {
			return differenceOfMaps(operations, path, old, new)
		}
	case []any:
		// Lists of the same length differ in their elements; of others it cannot be said
		// which element is new, short of knowing what identifies them.
		if new, ok := new.([]any); ok && len(old) == len(new) {
			for i := range old {
				operations = difference(operations, path+"/"+strconv.Itoa(i), old[i], new[i])
			}
			return operations
		}
	}
	return append(operations, replace(path, new))
}

func differenceOfMaps(operations []operation, path string, old, new map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if _, kept := new[key]; !kept {
			operations = append(operations, remove(path+"/"+escape(key)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(new)) {
		at := path + "/" + escape(key)
		if before, found := old[key]; found {
			operations = difference(operations, at, before, new[key])
		} else {
			operations = append(operations, add(at, new[key]))
		}
	}
	return operations
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes a key part of a JSON pointer.
func escape(key string) string { return pointer.Replace(key) }
