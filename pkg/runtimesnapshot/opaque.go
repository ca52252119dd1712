package runtimesnapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// EncodeOpaque makes the snapshot of a runtime of a kind that is not understood here:
// all of it but its status, with the same part of its metadata as of other runtimes, as
// the API server returned it. The object is not written to.
func EncodeOpaque(job *trainer.TrainJob, runtime *unstructured.Unstructured) (*corev1.ConfigMap, error) {
	document := maps.Clone(runtime.Object)
	delete(document, "status")
	metadata := Metadata{
		Name: runtime.GetName(), Namespace: runtime.GetNamespace(),
		Labels: runtime.GetLabels(), Annotations: withoutLastApplied(runtime.GetAnnotations()),
	}
	data, err := fit(runtime.GetKind(), metadata, func(metadata Metadata) ([]byte, error) {
		document["metadata"] = metadata
		return lossless(document)
	})
	if err != nil {
		return nil, err
	}
	return configMap(job, string(data)), nil
}

// lossless writes a document as YAML that is read back as the very same document. What
// YAML cannot hold in its own style is written as JSON, which is YAML, too.
func lossless(document map[string]any) ([]byte, error) {
	plain, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var want, got map[string]any
	if err := utiljson.Unmarshal(plain, &want); err != nil {
		return nil, err
	}
	plain = escaped(plain)
	for _, write := range []func([]byte) ([]byte, error){
		yaml.JSONToYAML,
		func(plain []byte) ([]byte, error) { return append(plain[:len(plain):len(plain)], '\n'), nil },
	} {
		data, err := write(plain)
		if err != nil {
			continue
		}
		back, err := yaml.YAMLToJSONStrict(data)
		if err != nil || utiljson.Unmarshal(back, &got) != nil || !reflect.DeepEqual(want, got) {
			got = nil
			continue
		}
		return data, nil
	}
	return nil, fmt.Errorf("neither YAML nor JSON brings back what is in it")
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
