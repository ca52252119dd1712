package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// decode reads an answer as the SDK's models do: a value of another type than the field's
// is refused ("1" is no integer and 1 is no text), a field of which the tag lacks omitempty
// must be there and not null, and what the models do not know is ignored. The Kubernetes
// types keep the same custom, from which the models' required fields are generated too.
func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	var raw any
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	return missing(raw, reflect.TypeOf(into), "")
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// missing names the first field that must be there and is not.
func missing(raw any, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil // a quantity, a time: it has judged for itself
	}
	switch value := raw.(type) {
	case map[string]any:
		if t.Kind() == reflect.Struct {
			return missingIn(value, t, path)
		}
		if t.Kind() == reflect.Map {
			for key, item := range value {
				if err := missing(item, t.Elem(), path+"."+key); err != nil {
					return err
				}
			}
		}
	case []any:
		for i, item := range value {
			if err := missing(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func missingIn(object map[string]any, t reflect.Type, path string) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			if err := missing(object, field.Type, path); err != nil {
				return err
			}
			continue
		}
		value := object[name]
		if value == nil && !strings.Contains(options, "omit") {
			return fmt.Errorf("%s.%s is required", path, name)
		}
		if err := missing(value, field.Type, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}
