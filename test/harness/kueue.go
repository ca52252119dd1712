package harness

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// KueueManager is the manager of Kueue's runtime patch.
const KueueManager = "kueue.x-k8s.io/manager"

// kueueSpec is the spec as Kubeflow Trainer v2.2's Go types have it, through which Kueue
// reads and writes jobs. They do not know ttlSecondsAfterFinished. What is below the
// fields is named and typed there as it is here.
type kueueSpec struct {
	RuntimeRef            trainer.RuntimeRef     `json:"runtimeRef,omitzero"`
	Initializer           *trainer.Initializer   `json:"initializer,omitempty"`
	Trainer               *trainer.Trainer       `json:"trainer,omitempty"`
	RuntimePatches        []trainer.RuntimePatch `json:"runtimePatches,omitempty"`
	Suspend               *bool                  `json:"suspend,omitempty"`
	ActiveDeadlineSeconds *int64                 `json:"activeDeadlineSeconds,omitempty"`
	ManagedBy             *string                `json:"managedBy,omitempty"`
}

// asKueueWrites is a spec after it has been through Kueue's types: without what they do
// not know or would leave out as empty, and with quantities as Go writes them.
func asKueueWrites(spec map[string]any) (map[string]any, error) {
	var typed kueueSpec
	if err := recode(spec, &typed); err != nil {
		return nil, err
	}
	written := map[string]any{}
	return written, recode(typed, &written)
}

func recode(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, to) // whole numbers stay whole
}

// UpdateAsKueue writes a whole job, as Kueue does, through types that do not know all
// of it.
func (e *Env) UpdateAsKueue(t *testing.T, namespace, name string, change func(spec map[string]any)) {
	t.Helper()
	jobs := e.Dynamic.Resource(trainer.SchemeGroupVersion.WithResource("trainjobs")).Namespace(namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job, err := jobs.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec := job.Object["spec"].(map[string]any)
		change(spec)
		if job.Object["spec"], err = asKueueWrites(spec); err != nil {
			return err
		}
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
