// Package snapshot tests what becomes of jobs when their runtimes, snapshots and
// JobSets are edited, deleted or in the way. Nobody acts on JobSets here but the tests,
// which play the JobSet controller where a job has to go on.
package snapshot

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

// soon is how long anything may take that only needs the machine to get round to it.
const soon = 20 * time.Second

// newRuntime makes the TrainingRuntime "torch" in a namespace.
func newRuntime(t *testing.T, namespace string) *trainer.TrainingRuntime {
	t.Helper()
	runtime := builders.TrainingRuntime("torch", builders.TorchSpec())
	runtime.Namespace = namespace
	created, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Create(t.Context(), runtime, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// newJob makes a job of that runtime.
func newJob(t *testing.T, namespace, name string, opts ...builders.JobOption) *trainer.TrainJob {
	t.Helper()
	opts = append([]builders.JobOption{builders.Runtime(trainer.TrainingRuntimeKind, "torch")}, opts...)
	job := builders.TrainJob(name, opts...)
	job.Namespace = namespace
	return env.Create(t, job)
}

// patchJob changes a job by a JSON merge patch.
func patchJob(t *testing.T, namespace, name, patch string) {
	t.Helper()
	_, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func deleteJob(t *testing.T, namespace, name string) {
	t.Helper()
	if err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setImage edits the runtime of a namespace.
func setImage(t *testing.T, namespace, image string) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Patch(t.Context(), "torch", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// snapshotOf is the snapshot of a job, nil if there is none.
func snapshotOf(t *testing.T, namespace, job string) *corev1.ConfigMap {
	t.Helper()
	cm, err := env.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), job+"-runtime-snapshot", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// jobSetOf is the JobSet of a job, nil if there is none.
func jobSetOf(t *testing.T, namespace, job string) *jobset.JobSet {
	t.Helper()
	js, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Get(t.Context(), job, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// awaitSnapshot waits until a job has a snapshot of its own.
func awaitSnapshot(t *testing.T, job *trainer.TrainJob) *corev1.ConfigMap {
	t.Helper()
	var cm *corev1.ConfigMap
	harness.Eventually(t, soon, func() string {
		if cm = snapshotOf(t, job.Namespace, job.Name); cm == nil {
			return "job " + job.Name + " has no snapshot"
		}
		return ownedBy(cm, job)
	})
	return cm
}

// awaitJobSet waits until a job has a JobSet of its own that is suspended or not.
func awaitJobSet(t *testing.T, job *trainer.TrainJob, suspended bool) *jobset.JobSet {
	t.Helper()
	var js *jobset.JobSet
	harness.Eventually(t, soon, func() string {
		if js = jobSetOf(t, job.Namespace, job.Name); js == nil {
			return "job " + job.Name + " has no JobSet"
		}
		if is := js.Spec.Suspend != nil && *js.Spec.Suspend; is != suspended {
			return fmt.Sprintf("suspend of JobSet %s is %v, want %v", js.Name, is, suspended)
		}
		return ownedBy(js, job)
	})
	return js
}

func ownedBy(object metav1.Object, job *trainer.TrainJob) string {
	if metav1.IsControlledBy(object, job) {
		return ""
	}
	return fmt.Sprintf("%s does not belong to job %s (%s) but to %v", object.GetName(), job.Name, job.UID, object.GetOwnerReferences())
}

// setJobSetStatus plays the JobSet controller.
func setJobSetStatus(t *testing.T, namespace, name string, change func(*jobset.JobSetStatus)) {
	t.Helper()
	harness.Eventually(t, soon, func() string {
		js := jobSetOf(t, namespace, name)
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
	status.Restarts = 0
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

// eventsOf are the reasons of the events about a job.
func eventsOf(t *testing.T, namespace, job string) string {
	t.Helper()
	list, err := env.Core.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + job})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, event := range list.Items {
		reasons = append(reasons, event.Type+"/"+event.Reason)
	}
	return strings.Join(reasons, " ")
}

// awaitEvent waits until an event, written "Type/Reason", tells of a job.
func awaitEvent(t *testing.T, namespace, job, event string) {
	t.Helper()
	harness.Eventually(t, soon, func() string {
		if all := eventsOf(t, namespace, job); !strings.Contains(all, event) {
			return fmt.Sprintf("no event %s of job %s, only %s", event, job, all)
		}
		return ""
	})
}
