// Package stack tests jobs among the controllers they live with: JobSet with its
// webhooks, the scheduler, kube-controller-manager, and nodes that are played.
package stack

import (
	"os"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.FullStack(), &env, "--preflight-quarantine=1h"))
}

func annotated(spec trainer.TrainingRuntimeSpec, replicatedJob, key, value string) trainer.TrainingRuntimeSpec {
	return harness.Annotated(spec, replicatedJob, key, value)
}

func holding(spec trainer.TrainingRuntimeSpec) trainer.TrainingRuntimeSpec {
	return harness.Holding(spec)
}

func podsOf(t *testing.T, namespace, job, replicatedJob string) []corev1.Pod {
	t.Helper()
	return env.PodsOf(t, namespace, job, replicatedJob)
}

func livePods(t *testing.T, namespace, job, replicatedJob string) []corev1.Pod {
	t.Helper()
	return env.LivePods(t, namespace, job, replicatedJob)
}

func awaitPods(t *testing.T, namespace, job string, n int) []corev1.Pod {
	t.Helper()
	return env.AwaitPods(t, namespace, job, n)
}

// letGo takes the hold off the training pods of a job.
func letGo(t *testing.T, namespace, job string) {
	t.Helper()
	env.LetGo(t, namespace, job, "node")
}

// childJobs are the Jobs of a job by the name of their replicatedJob.
func childJobs(t *testing.T, namespace, job string) map[string]batchv1.Job {
	t.Helper()
	list, err := env.Core.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=" + job})
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]batchv1.Job{}
	for _, j := range list.Items {
		jobs[j.Labels[jobset.ReplicatedJobNameKey]] = j
	}
	return jobs
}

// nothingRefused checks that the API server has granted every write of the controller
// in a namespace.
func nothingRefused(t *testing.T, since cluster.AuditPosition, namespace string) {
	t.Helper()
	if refused := harness.Refused(env.Writes(t, since, namespace)); refused != "" {
		t.Errorf("writes that were refused: %s", refused)
	}
}

// placed is the entry of a manager that sets node selectors of the training pods.
func placed(manager string, selector map[string]string) trainer.RuntimePatch {
	return trainer.RuntimePatch{Manager: manager, TrainingRuntimeSpec: &trainer.TrainingRuntimeSpecPatch{
		Template: &trainer.JobSetTemplatePatch{Spec: &trainer.JobSetSpecPatch{ReplicatedJobs: []trainer.ReplicatedJobPatch{{
			Name: "node", Template: &trainer.JobTemplatePatch{Spec: &trainer.JobSpecPatch{Template: &trainer.PodTemplatePatch{
				Spec: &trainer.PodSpecPatch{NodeSelector: selector},
			}}},
		}}}},
	}}
}

// update changes a job by a whole update, as clients written in Go do.
func update(t *testing.T, namespace, name string, change func(*trainer.TrainJob)) {
	t.Helper()
	var refused error
	for range 20 {
		job := env.Job(t, namespace, name)
		change(job)
		if _, refused = env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Update(t.Context(), job, metav1.UpdateOptions{}); refused == nil {
			return
		}
	}
	t.Fatal(refused)
}
