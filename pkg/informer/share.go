package informer

import (
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/pkg/bytecache"
)

// shareLimit is how many bytes of strings are remembered for sharing.
const shareLimit = 8 << 20

// ShareData returns a trim function for ConfigMaps: those with equal data hold it in
// memory once. Of ten thousand objects with the same few kilobytes, that is most of what
// they take. Objects of other kinds are not touched.
func ShareData() func(metav1.Object) {
	return shareData(bytecache.New[string, string](shareLimit))
}

func shareData(texts *bytecache.Cache[string, string]) func(metav1.Object) {
	return func(object metav1.Object) {
		cm, ok := object.(*corev1.ConfigMap)
		if !ok {
			return
		}
		for key, value := range cm.Data {
			// Writes only what is not shared yet: an object that comes by again may be in
			// readers' hands.
			if known := texts.GetOrPut(value, value, len(value)); unsafe.StringData(known) != unsafe.StringData(value) {
				cm.Data[key] = known
			}
		}
	}
}
