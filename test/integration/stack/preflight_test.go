package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

const quarantined = "preflight.trainer.kubeflow.org/quarantined"

// checkedRuntime is the shipped runtime, its pods left to the test once they have a node.
func checkedRuntime(t *testing.T, name string) trainer.TrainingRuntimeSpec {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.SourceDir(), "artifacts", "runtimes", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var runtime trainer.ClusterTrainingRuntime
	if err := yaml.UnmarshalStrict(data, &runtime); err != nil {
		t.Fatal(err)
	}
	return annotated(runtime.Spec, "node", cluster.HoldAnnotation, cluster.HoldPending)
}

// placedPods waits until all ranks of a job have a node, and returns their pods by rank.
func placedPods(t *testing.T, namespace, job string, ranks int) map[string]corev1.Pod {
	t.Helper()
	byRank := map[string]corev1.Pod{}
	harness.Eventually(t, harness.Soon, func() string {
		clear(byRank)
		for _, pod := range livePods(t, namespace, job, "node") {
			if pod.Spec.NodeName != "" {
				byRank[pod.Annotations[batchv1.JobCompletionIndexAnnotation]] = pod
			}
		}
		if len(byRank) != ranks {
			return fmt.Sprintf("%d pods of job %s have a node, want %d", len(byRank), job, ranks)
		}
		return ""
	})
	return byRank
}

// failCheck has the preflight of a pod end as a kubelet would tell it.
func failCheck(t *testing.T, pod corev1.Pod, outcome report.Outcome, exit int32, scope report.Scope, reason, message string) {
	t.Helper()
	said, err := json.Marshal(report.Report{
		APIVersion: report.APIVersion, Kind: report.Kind, Outcome: outcome, ExitCode: int(exit), Reason: reason, Message: message,
		Checks: []report.Check{{Name: "gpu", Finding: report.Finding{Status: report.StatusFail, Outcome: outcome, Scope: scope, Reason: reason}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, Reason: "Error", StartedAt: now, FinishedAt: now}}
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{
		{Name: "preflight-install", Image: "a", State: ended(0, "")}, {Name: trainer.ContainerPreflight, Image: "a", State: ended(exit, string(said))},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Core.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func TestACheckThatStopsTheJobSaysWhy(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"torch-distributed-preflight", "torch-distributed-preflight-legacy"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, checkedRuntime(t, runtime))
			nodes := int32(3)
			env.NewJob(t, namespace, "a", builders.Trainer(trainer.Trainer{NumNodes: &nodes}))
			bad := placedPods(t, namespace, "a", 3)["2"]
			failCheck(t, bad, report.Fatal, 30, report.ScopeJob, "CUDADriverTooOld", "cuda: driver is too old")
			job := env.AwaitState(t, namespace, "a", trainer.TrainJobFailed, "CUDADriverTooOld", harness.Soon)
			if want := "preflight on node " + bad.Spec.NodeName + ": cuda: driver is too old"; job.Status.Message != want {
				t.Errorf("the message is %q, want %q", job.Status.Message, want)
			}
			if p := job.Status.Preflight; p == nil || p.Outcome != "Fatal" || len(p.Nodes) != 1 || p.Nodes[0] != bad.Spec.NodeName {
				t.Errorf("status.preflight is %+v", p)
			}
			events := env.Kubectl(t, "-n", namespace, "get", "events", "-o", "custom-columns=R:.reason,M:.message", "--no-headers")
			if !strings.Contains(events, "rank 2 on node") {
				t.Errorf("no event names the rank:\n%s", events)
			}
		})
	}
}

// One node at fault: the job starts anew, and not there.
func TestAFaultyNodeIsMarkedAndTheJobGoesElsewhere(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, checkedRuntime(t, "torch-distributed-preflight"))
	env.NewJob(t, namespace, "a")
	bad := placedPods(t, namespace, "a", 1)["0"]
	t.Cleanup(func() { // in which the test's own context has ended
		if out, err := env.TryKubectl(context.WithoutCancel(t.Context()), "label", "node", bad.Spec.NodeName, quarantined+"-"); err != nil {
			t.Errorf("take the mark off the node: %v\n%s", err, out)
		}
	})
	failCheck(t, bad, report.Reschedule, 21, report.ScopeNode, "GPULost", "gpu: a GPU is lost")
	harness.Eventually(t, harness.Soon, func() string {
		node, err := env.Core.CoreV1().Nodes().Get(t.Context(), bad.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.Labels[quarantined] == "" {
			return "the node is not marked"
		}
		for _, pod := range livePods(t, namespace, "a", "node") {
			if pod.UID != bad.UID && pod.Spec.NodeName != "" && pod.Spec.NodeName != bad.Spec.NodeName {
				return ""
			}
		}
		return "the job has no pod on another node"
	})
	job := env.Job(t, namespace, "a")
	if job.Status.Restarts != 1 || job.Status.Preflight == nil || job.Status.Preflight.Reason != "GPULost" {
		t.Errorf("restarts %d, preflight %+v", job.Status.Restarts, job.Status.Preflight)
	}
}
