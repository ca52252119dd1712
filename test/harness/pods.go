package harness

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
)

// Annotated adds an annotation to the pods of one replicatedJob of a runtime, which
// changes what the played nodes do with them.
func Annotated(spec trainer.TrainingRuntimeSpec, replicatedJob, key, value string) trainer.TrainingRuntimeSpec {
	for i := range spec.Template.Spec.ReplicatedJobs {
		if rjob := &spec.Template.Spec.ReplicatedJobs[i]; rjob.Name == replicatedJob {
			metav1.SetMetaDataAnnotation(&rjob.Template.Spec.Template.ObjectMeta, key, value)
		}
	}
	return spec
}

// Holding is a runtime whose training pods run until somebody lets them go.
func Holding(spec trainer.TrainingRuntimeSpec) trainer.TrainingRuntimeSpec {
	return Annotated(spec, "node", cluster.HoldAnnotation, cluster.HoldRunning)
}

// PodsOf are the pods of a job's replicatedJob, of all if that is "".
func (e *Env) PodsOf(t *testing.T, namespace, job, replicatedJob string) []corev1.Pod {
	t.Helper()
	selector := jobset.JobSetNameKey + "=" + job
	if replicatedJob != "" {
		selector += "," + jobset.ReplicatedJobNameKey + "=" + replicatedJob
	}
	list, err := e.Core.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// LivePods are those of the pods that have not been told to end.
func (e *Env) LivePods(t *testing.T, namespace, job, replicatedJob string) []corev1.Pod {
	t.Helper()
	var live []corev1.Pod
	for _, pod := range e.PodsOf(t, namespace, job, replicatedJob) {
		if pod.DeletionTimestamp.IsZero() && pod.Status.Phase != corev1.PodFailed {
			live = append(live, pod)
		}
	}
	return live
}

// AwaitPods waits until the training pods that run are n.
func (e *Env) AwaitPods(t *testing.T, namespace, job string, n int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	Eventually(t, Soon, func() string {
		if pods = e.LivePods(t, namespace, job, "node"); len(pods) != n {
			return fmt.Sprintf("job %s has %d training pods, want %d", job, len(pods), n)
		}
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return ""
	})
	return pods
}

// LetGo takes the hold off the pods of a job's replicatedJob, off all if that is "".
func (e *Env) LetGo(t *testing.T, namespace, job, replicatedJob string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cluster.HoldAnnotation)
	for _, pod := range e.PodsOf(t, namespace, job, replicatedJob) {
		if _, err := e.Core.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// ProvideVolumes makes a volume for every claim without one while the test runs: some
// runtimes claim volumes, and nobody provides them here.
func (e *Env) ProvideVolumes(t *testing.T) {
	t.Helper()
	claims, err := e.Core.CoreV1().PersistentVolumeClaims("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range claims.ResultChan() {
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			if !ok || claim.Spec.VolumeName != "" || !claim.DeletionTimestamp.IsZero() {
				continue
			}
			_, err := e.Core.CoreV1().PersistentVolumes().Create(t.Context(), volumeFor(claim), metav1.CreateOptions{})
			if err != nil && !strings.Contains(err.Error(), "already exists") && t.Context().Err() == nil {
				t.Errorf("provide a volume: %v", err)
			}
		}
	}()
	t.Cleanup(func() { claims.Stop(); <-done })
}

func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "for-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            claim.Spec.AccessModes,
			Capacity:               claim.Spec.Resources.Requests,
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: os.DevNull}},
		},
	}
}
