package helpers

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// When a job's snapshot and JobSet are deleted by hand, it is built anew from the runtime
// as it is by then, and the helpers that it has already must fit.
func TestHelpersFollowASnapshotThatWasTakenAnew(t *testing.T) {
	for name, scheduler := range map[string]struct {
		group, version, crd string
		policy              trainer.PodGroupPolicySource
	}{
		"coscheduling": {"scheduling.x-k8s.io", "v1alpha1", "coscheduling.yaml",
			trainer.PodGroupPolicySource{Coscheduling: &trainer.CoschedulingPodGroupPolicySource{}}},
		"volcano": {"scheduling.volcano.sh", "v1beta1", "volcano.yaml",
			trainer.PodGroupPolicySource{Volcano: &trainer.VolcanoPodGroupPolicySource{}}},
	} {
		t.Run(name, func(t *testing.T) {
			env.Kubectl(t, "apply", "-f", filepath.Join("testdata", scheduler.crd))
			env.Kubectl(t, "wait", "--for", "condition=Established", "crd/podgroups."+scheduler.group)
			namespace := env.Namespace(t)
			spec := builders.MPISpec()
			spec.PodGroupPolicy = &trainer.PodGroupPolicy{PodGroupPolicySource: scheduler.policy}
			env.NewRuntime(t, namespace, spec)
			job := env.NewJob(t, namespace, "a")
			env.AwaitJobSet(t, job, false)
			first := env.AwaitSnapshot(t, job)
			members := minMember(t, podGroupOf(t, scheduler.group, scheduler.version, namespace, "a"))
			hosts := hostfileLines(t, namespace, "a")

			grow := []byte(`[{"op":"replace","path":"/spec/mlPolicy/numNodes","value":3}]`)
			if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, grow, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitThreeNodes(t, namespace)
			if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, harness.Soon, func() string {
				if now := env.Job(t, namespace, "a").Status.RuntimeSnapshot; now == nil || now.UID == first.UID {
					return "the job still goes by the snapshot that was deleted"
				}
				return ""
			})
			if err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, 3*harness.Soon, func() string {
				if js := env.JobSetOf(t, namespace, "a"); js == nil || js.DeletionTimestamp != nil {
					return "the JobSet has not been made anew"
				}
				return ""
			})
			if got := minMember(t, podGroupOf(t, scheduler.group, scheduler.version, namespace, "a")); got != members+1 {
				t.Errorf("the PodGroup has %d members, before one node more %d", got, members)
			}
			if got := hostfileLines(t, namespace, "a"); got != hosts+1 {
				t.Errorf("the hostfile has %d lines, before one node more %d", got, hosts)
			}

			complete(t, namespace, "a")
			env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "", harness.Soon)
			harness.Eventually(t, harness.Soon, func() string {
				if podGroupOf(t, scheduler.group, scheduler.version, namespace, "a") != nil {
					return "the PodGroup of a job that is complete is still there"
				}
				return ""
			})
		})
	}
}

// awaitThreeNodes waits until the controller has seen the edit of the runtime: until a job
// that is new gets a snapshot with it.
func awaitThreeNodes(t *testing.T, namespace string) {
	t.Helper()
	n := 0
	harness.Eventually(t, harness.Soon, func() string {
		n++
		job := env.NewJob(t, namespace, fmt.Sprintf("probe-%d", n), builders.Suspended(true))
		if !strings.Contains(env.AwaitSnapshot(t, job).Data[runtimesnapshot.DataKey], "numNodes: 3") {
			return "snapshots are still taken of the runtime before its edit"
		}
		return ""
	})
}

func minMember(t *testing.T, group *unstructured.Unstructured) int64 {
	t.Helper()
	if group == nil {
		t.Fatal("there is no PodGroup")
	}
	members, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func hostfileLines(t *testing.T, namespace, job string) int {
	t.Helper()
	cm, err := env.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), job+"-mpi-hostfile", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(cm.Data["hostfile"], "\n")
}
