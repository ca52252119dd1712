package informer

import (
	"sync"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shareLimit is how many bytes of strings are remembered for sharing.
const shareLimit = 16 << 20

// sharing gives equal strings the same memory. What it remembers is bounded: it then
// forgets all and begins anew, which costs one more copy of each string still in use.
type sharing struct {
	mu    sync.Mutex
	known map[string]string
	bytes int
}

// shared returns a string equal to s, the first such one that it was given.
func (s *sharing) shared(value string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[value]; ok {
		return known
	}
	if s.known == nil || s.bytes+len(value) > shareLimit {
		s.known, s.bytes = map[string]string{}, 0
	}
	if len(value) <= shareLimit {
		s.known[value] = value
		s.bytes += len(value)
	}
	return value
}

// ShareData returns a trim function for ConfigMaps: those with equal data hold it in
// memory once. Of ten thousand objects with the same few kilobytes, that is most of what
// they take. Objects of other kinds are not touched.
func ShareData() func(metav1.Object) {
	var s sharing
	return func(object metav1.Object) {
		cm, ok := object.(*corev1.ConfigMap)
		if !ok {
			return
		}
		for key, value := range cm.Data {
			// Writes only what is not shared yet: an object that comes by again may be in
			// readers' hands.
			if known := s.shared(value); unsafe.StringData(known) != unsafe.StringData(value) {
				cm.Data[key] = known
			}
		}
	}
}
