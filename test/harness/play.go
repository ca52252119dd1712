package harness

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// PlayHeldBack does what the JobSet controller does once it has suspended the Jobs of
// a JobSet, or resumed them: it sets the JobSet's condition Suspended.
func (e *Env) PlayHeldBack(t *testing.T, namespace, name string, held bool) {
	t.Helper()
	status := metav1.ConditionFalse
	if held {
		status = metav1.ConditionTrue
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Played","message":"","lastTransitionTime":%q}]}}`,
		jobset.JobSetSuspended, status, time.Now().UTC().Format(time.RFC3339))
	_, err := e.JobSet.JobsetV1alpha2().JobSets(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("patch the status of JobSet %s: %v", name, err)
	}
}
