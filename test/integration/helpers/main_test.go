// Package helpers tests what the controller makes beside JobSets: hostfiles and keys for
// MPI, and PodGroups for gang schedulers. Nobody acts on JobSets here but the tests.
package helpers

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.WithoutJobSetController(), &env))
}

// complete plays the JobSet controller.
func complete(t *testing.T, namespace, name string) {
	t.Helper()
	js := env.JobSetOf(t, namespace, name)
	js.Status.TerminalState = string(jobset.JobSetCompleted)
	js.Status.ReplicatedJobsStatus = []jobset.ReplicatedJobStatus{builders.Succeeded("node")}
	js.Status.Conditions = append(js.Status.Conditions, metav1.Condition{
		Type: string(jobset.JobSetCompleted), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
		Message: "jobset completed successfully", LastTransitionTime: metav1.Now(),
	})
	if _, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).UpdateStatus(t.Context(), js, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
