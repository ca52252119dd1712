package jobset

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetfake "sigs.k8s.io/jobset/client-go/clientset/versioned/fake"
)

// A leader may be replaced while its write is on the way.
func TestEveryPatchOfAJobSetFailsIfTheJobSetHasChanged(t *testing.T) {
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}}
	for name, send := range map[string]func(jobSetWriter) error{
		"suspend": func(w jobSetWriter) error { _, err := w.suspend(t.Context(), js); return err },
		"resume":  func(w jobSetWriter) error { _, err := w.resume(t.Context(), js); return err },
		"remade":  func(w jobSetWriter) error { _, err := w.remade(t.Context(), js); return err },
	} {
		t.Run(name, func(t *testing.T) {
			client := jobsetfake.NewSimpleClientset(js.DeepCopy())
			if err := send(jobSetWriter{jobSets: client.JobsetV1alpha2()}); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Metadata struct{ UID, ResourceVersion string }
			}
			patch, ok := client.Actions()[0].(clienttesting.PatchAction)
			if !ok {
				t.Fatalf("it sent %v, want a patch", client.Actions()[0])
			}
			if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
				t.Fatal(err)
			}
			if sent.Metadata.UID != "u" || sent.Metadata.ResourceVersion != "7" {
				t.Errorf("preconditions in %s, want UID and resourceVersion", patch.GetPatch())
			}
		})
	}
}
