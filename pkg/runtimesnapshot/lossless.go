package runtimesnapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// lossless writes a document as YAML that is read back as the very same document. What
// YAML cannot hold in its own style is written as JSON, which is YAML, too. What is too
// large for a snapshot anyway is not read back. The error names the field that cannot be
// held.
func lossless(document any) ([]byte, error) {
	plain, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var want map[string]any
	if err := utiljson.Unmarshal(plain, &want); err != nil {
		return nil, err
	}
	plain = escaped(plain)
	for _, write := range []func([]byte) ([]byte, error){yaml.JSONToYAML, asItIs} {
		data, err := write(plain)
		if err == nil && (len(data) > MaxBytes || lost(data, want) == "") {
			return data, nil
		}
	}
	return nil, fmt.Errorf("a snapshot cannot hold %s as it is: neither YAML nor JSON brings it back; change it in the runtime", lost(append(plain, '\n'), want))
}

// ofTypes is lossless for a document of Go types. Text in it is all that YAML could change,
// and what it does not print is easily found: reading everything back would more than
// double the cost.
func ofTypes(document any) ([]byte, error) {
	plain, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	if bytes.ContainsFunc(plain, unprintable) {
		return lossless(document)
	}
	return yaml.JSONToYAML(plain)
}

// asItIs is a line of JSON.
func asItIs(plain []byte) ([]byte, error) {
	return append(plain[:len(plain):len(plain)], '\n'), nil
}

// lost is the first field of the document that is not what is read back from its text;
// "" if there is none.
func lost(data []byte, want map[string]any) string {
	var got map[string]any
	back, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		err = utiljson.Unmarshal(back, &got)
	}
	if err != nil {
		return "the runtime (" + err.Error() + ")"
	}
	return difference("", want, got)
}

// difference is the path of the first field, by name, in which two values differ.
func difference(path string, want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if inner := difference(fmt.Sprintf("%s[%q]", path, key), want[key], got[key]); inner != "" {
				return inner
			}
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			for i := range want {
				if inner := difference(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); inner != "" {
					return inner
				}
			}
		}
	}
	return "field " + path
}

// escaped writes the characters that YAML does not let stand for themselves as escapes.
// In JSON they can only be part of strings.
func escaped(plain []byte) []byte {
	if !bytes.ContainsFunc(plain, unprintable) {
		return plain
	}
	out := make([]byte, 0, len(plain)+64)
	for len(plain) > 0 {
		r, size := utf8.DecodeRune(plain)
		if unprintable(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, plain[:size]...)
		}
		plain = plain[size:]
	}
	return out
}

// unprintable is true of what YAML calls so and JSON does not escape by itself: DEL, the
// control characters of Latin-1, the byte order mark and what is no character.
func unprintable(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff
}
