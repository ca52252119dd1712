package crash

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// torch is the runtime of most scenarios.
func torch(t *testing.T, s *story) {
	t.Helper()
	env.NewRuntime(t, s.namespace, builders.TorchSpec())
}

// snapshotOf waits until a job has a snapshot that its status names.
func snapshotOf(t *testing.T, s *story, name string) *corev1.ConfigMap {
	t.Helper()
	var cm *corev1.ConfigMap
	harness.Eventually(t, patience, func() string {
		job := env.Job(t, s.namespace, name)
		cm = env.SnapshotOf(t, s.namespace, name)
		if cm == nil || !metav1.IsControlledBy(cm, job) {
			return "job " + name + " has no snapshot of its own"
		}
		if job.Status.RuntimeSnapshot == nil || job.Status.RuntimeSnapshot.UID != cm.UID {
			return "the status of job " + name + " does not name its snapshot"
		}
		return ""
	})
	return cm
}

// jobSetOf waits until a job has a JobSet of its own.
func jobSetOf(t *testing.T, s *story, name string) *jobset.JobSet {
	t.Helper()
	var js *jobset.JobSet
	harness.Eventually(t, patience, func() string {
		js = env.JobSetOf(t, s.namespace, name)
		if js == nil || !metav1.IsControlledBy(js, env.Job(t, s.namespace, name)) {
			return "job " + name + " has no JobSet of its own"
		}
		return ""
	})
	return js
}

// play writes the status of a JobSet.
func play(t *testing.T, s *story, name string, changes ...builders.JobSetOption) {
	t.Helper()
	client := env.JobSet.JobsetV1alpha2().JobSets(s.namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		js, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, change := range changes {
			change(js)
		}
		_, err = client.UpdateStatus(t.Context(), js, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func completed() []builders.JobSetOption {
	return []builders.JobSetOption{
		builders.Jobs(builders.Succeeded("node")), builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "jobset completed successfully"),
	}
}

// setFinalizers of a JobSet: a JSON list, or null.
func setFinalizers(t *testing.T, s *story, name, list string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, list)
	if _, err := env.JobSet.JobsetV1alpha2().JobSets(s.namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

const held = `["example.com/held-by-test"]`

// await waits until a job is in a state.
func await(t *testing.T, s *story, name string, state trainer.TrainJobState, reason string) *trainer.TrainJob {
	t.Helper()
	return env.AwaitState(t, s.namespace, name, state, reason, patience)
}

// imageOf is the image of the training container in a template.
func imageOf(spec jobset.JobSetSpec) string {
	return spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image
}

// frozenImage is that in a snapshot.
func frozenImage(t *testing.T, cm *corev1.ConfigMap) string {
	t.Helper()
	var runtime struct {
		Spec trainer.TrainingRuntimeSpec `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(cm.Data["runtime"]), &runtime); err != nil {
		t.Fatal(err)
	}
	return imageOf(runtime.Spec.Template.Spec)
}

// setImage edits a runtime.
func setImage(t *testing.T, s *story, image string) {
	t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image","value":%q}]`, image)
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(s.namespace).Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// terminal are the terminal conditions that are True.
func terminal(job *trainer.TrainJob) int {
	n := 0
	for _, c := range job.Status.Conditions {
		if c.Status == metav1.ConditionTrue && (c.Type == string(trainer.TrainJobComplete) || c.Type == string(trainer.TrainJobFailed)) {
			n++
		}
	}
	return n
}
