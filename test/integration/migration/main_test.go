// Package migration tests what becomes of the objects that Kubeflow Trainer v2.3 and
// earlier releases leave behind, when this controller takes over from them: among the
// real JobSet controller, scheduler and kube-controller-manager.
package migration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
	"github.com/trainjob/controller/test/trainerv23"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.FullStack(), &env))
}

// leftBehind makes a namespace with the runtimes of the jobs that older controllers
// leave behind. There is no controller then.
func leftBehind(t *testing.T) string {
	t.Helper()
	env.WithoutController(t)
	namespace := env.Namespace(t)
	if err := trainerv23.CreateRuntimes(t.Context(), env.Dynamic, namespace); err != nil {
		t.Fatal(err)
	}
	return namespace
}

func leave(t *testing.T, namespace, job string, options trainerv23.Options) {
	t.Helper()
	if err := trainerv23.Create(t.Context(), env.Dynamic, namespace, job, options); err != nil {
		t.Fatal(err)
	}
}

// pods of a job by their names, those that are on their way out left out.
func pods(t *testing.T, namespace, job string) map[string]corev1.Pod {
	t.Helper()
	list, err := env.Core.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=" + job})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp.IsZero() && pod.Status.Phase != corev1.PodFailed {
			found[pod.Name] = pod
		}
	}
	return found
}

// awaitPods waits until n pods of a job run.
func awaitPods(t *testing.T, namespace, job string, n int) map[string]corev1.Pod {
	t.Helper()
	var found map[string]corev1.Pod
	harness.Eventually(t, 2*harness.Soon, func() string {
		if found = pods(t, namespace, job); len(found) != n {
			return fmt.Sprintf("job %s has %d pods, want %d", job, len(found), n)
		}
		for _, pod := range found {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return ""
	})
	return found
}

// uids of pods, in the order of their names.
func uids(pods map[string]corev1.Pod) []string {
	var all []string
	for name, pod := range pods {
		all = append(all, name+" "+string(pod.UID))
	}
	slices.Sort(all)
	return all
}

// letGo takes the hold off the pods of a job.
func letGo(t *testing.T, namespace, job string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cluster.HoldAnnotation)
	for name := range pods(t, namespace, job) {
		if _, err := env.Core.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// writesTo are the controller's writes since a position to objects of a job: of its name,
// or of a name that begins with it and a dash. A create has no name in the audit log, so
// creates count if they are of the namespace.
func writesTo(t *testing.T, since cluster.AuditPosition, namespace, job string) []cluster.AuditEvent {
	t.Helper()
	return slices.DeleteFunc(env.Writes(t, since, namespace), func(e cluster.AuditEvent) bool {
		return e.Name != "" && e.Name != job && !strings.HasPrefix(e.Name, job+"-")
	})
}
