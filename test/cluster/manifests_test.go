package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManifestsAreDecodedOneByOne(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"an empty file has no objects":          {"", nil},
		"comments alone are no object":          {"# nothing\n---\n# here\n", nil},
		"documents are separated":               {"kind: A\n---\nkind: B\n", []string{"A", "B"}},
		"a leading separator is no document":    {"---\nkind: A\n", []string{"A"}},
		"a kustomization is not an object":      {"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n---\nkind: A\n", []string{"A"}},
		"a document may be long, as CRDs are":   {"kind: A\ntext: " + strings.Repeat("x", 1<<20) + "\n---\nkind: B\n", []string{"A", "B"}},
		"the last line needs no end of line":    {"kind: A\n---\nkind: B", []string{"A", "B"}},
		"a separator in a text does not divide": {"kind: A\ntext: |\n  a\n  --- b\n", []string{"A"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := decodeManifests([]byte(test.yaml))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFolderWithoutCRDsIsAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", "kind: ConfigMap\n")
	err := new(Cluster).InstallCRDs(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "no CRD in "+dir) {
		t.Errorf("error %v", err)
	}
}
