package informer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

func TestOfStrangersConfigMapsThereIsNoMoreThanWhoseTheyAre(t *testing.T) {
	owner := schema.GroupKind{Group: "example.com", Kind: "Owner"}
	for name, tc := range map[string]struct {
		refs []metav1.OwnerReference
		kept bool
	}{
		"nobody's":       {nil, false},
		"another kind's": {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", Controller: ptr.To(true)}}, false},
		"the kind's":     {[]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Owner", Name: "o", UID: "2", Controller: ptr.To(true)}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cm := configMap("a", strings.Repeat("x", 1000))
			cm.UID, cm.ResourceVersion, cm.OwnerReferences = "uid", "7", tc.refs
			cm.Annotations, cm.BinaryData = map[string]string{"note": "long"}, map[string][]byte{"b": []byte("long")}
			want := cm.DeepCopy()
			if !tc.kept {
				want.Annotations, want.Data, want.BinaryData = nil, nil, nil
			}
			for range 2 {
				if _, err := Transform(TrimConfigMap(owner))(cm); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, cm); diff != "" {
					t.Errorf("ConfigMap (-want +got):\n%s", diff)
				}
			}
		})
	}
}
