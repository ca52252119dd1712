package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// KueueManager is the manager of Kueue's runtime patch.
const KueueManager = "kueue.x-k8s.io/manager"

// UpdateAsKueue writes a whole job, as Kueue does, through types that do not know the
// time limits.
func (e *Env) UpdateAsKueue(t *testing.T, namespace, name string, change func(spec map[string]any)) {
	t.Helper()
	jobs := e.Dynamic.Resource(trainer.SchemeGroupVersion.WithResource("trainjobs")).Namespace(namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec := job.Object["spec"].(map[string]any)
		delete(spec, "ttlSecondsAfterFinished")
		delete(spec, "activeDeadlineSeconds")
		change(spec)
		_, err = jobs.Update(t.Context(), job, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// KueueAssignment is the list of patches once Kueue has found a place for the job.
func KueueAssignment() []any {
	pod := map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{"kueue.x-k8s.io/podset": "node"},
			"annotations": map[string]any{"kueue.x-k8s.io/workload": "trainjob-a"},
		},
		"spec": map[string]any{
			"nodeSelector": map[string]any{corev1.LabelOSStable: "linux"},
			"tolerations":  []any{map[string]any{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}},
		},
	}
	job := map[string]any{"name": "node", "template": map[string]any{"spec": map[string]any{"template": pod}}}
	return []any{map[string]any{"manager": KueueManager, "trainingRuntimeSpec": map[string]any{
		"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{job}}},
	}}}
}
