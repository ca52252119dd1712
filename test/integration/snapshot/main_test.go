// Package snapshot tests what becomes of jobs when their runtimes, snapshots and
// JobSets are edited, deleted or in the way. Nobody acts on JobSets here but the tests,
// which play the JobSet controller where a job has to go on.
package snapshot

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.WithoutJobSetController(), &env))
}

// setImage edits the runtime of a namespace.
func setImage(t *testing.T, namespace, image string) {
	t.Helper()
	_, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, imagePatch(image), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func imagePatch(image string) []byte {
	return fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image","value":%q}]`, image)
}

// setJobSetStatus plays the JobSet controller.
func setJobSetStatus(t *testing.T, namespace, name string, change func(*jobset.JobSetStatus)) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		js := env.JobSetOf(t, namespace, name)
		change(&js.Status)
		_, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).UpdateStatus(t.Context(), js, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return "somebody else writes to the JobSet"
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	})
}

func counting(counters ...jobset.ReplicatedJobStatus) func(*jobset.JobSetStatus) {
	return func(status *jobset.JobSetStatus) { status.ReplicatedJobsStatus = counters }
}

func completed(status *jobset.JobSetStatus) {
	status.TerminalState = string(jobset.JobSetCompleted)
	status.ReplicatedJobsStatus = []jobset.ReplicatedJobStatus{builders.Succeeded("node")}
	status.Conditions = append(status.Conditions, metav1.Condition{
		Type: string(jobset.JobSetCompleted), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
		Message: "jobset completed successfully", LastTransitionTime: metav1.Now(),
	})
}

// frozenImage is the image of the training container in a snapshot.
func frozenImage(t *testing.T, cm *corev1.ConfigMap) string {
	t.Helper()
	var runtime struct {
		Spec trainer.TrainingRuntimeSpec `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(cm.Data["runtime"]), &runtime); err != nil {
		t.Fatal(err)
	}
	return builtImage(runtime.Spec.Template.Spec)
}

func builtImage(spec jobset.JobSetSpec) string {
	return spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image
}
