package state

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestForegroundDeletionCreatesNothingAndEnds(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	patchJobSet(t, ns, "a", hold)
	cm := awaitSnapshot(t, ns, "a", "", soon)
	before := env.AuditNow(t)
	deleteJob(t, ns, "a", metav1.DeletePropagationForeground)
	// The garbage collector may have been faster.
	_ = env.Core.CoreV1().ConfigMaps(ns).Delete(t.Context(), cm.Name, metav1.DeleteOptions{})
	setSuspend(t, ns, "a", true)
	setSuspend(t, ns, "a", false)
	harness.Consistently(t, 3*time.Second, func() string {
		if env.Job(t, ns, "a").DeletionTimestamp.IsZero() {
			return "the job is not being deleted"
		}
		return nothing
	})
	wantNoCreates(t, before, ns)
	if writes := requests(t, before, ns, cluster.AuditFilter{Resource: "jobsets", Writes: true}); len(writes) > 0 {
		t.Errorf("the JobSet of a job that is being deleted was changed:\n%s", listed(writes))
	}
	patchJobSet(t, ns, "a", letGo)
	awaitNoJob(t, ns, "a", soon)
	awaitNoJobSet(t, ns, "a", soon)
	wantNoCreates(t, before, ns)
}

func TestChildrenThatGoWithTheirJobAreNotMadeAgain(t *testing.T) {
	t.Parallel()
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		t.Run(string(propagation), func(t *testing.T) {
			t.Parallel()
			ns := setUp(t)
			const jobs = 15
			for i := range jobs {
				running(t, ns, fmt.Sprintf("a%d", i))
			}
			before := env.AuditNow(t)
			for i := range jobs {
				deleteJob(t, ns, fmt.Sprintf("a%d", i), propagation)
			}
			for i := range jobs {
				name := fmt.Sprintf("a%d", i)
				awaitNoJob(t, ns, name, time.Minute)
				awaitNoJobSet(t, ns, name, time.Minute)
			}
			harness.Eventually(t, time.Minute, func() string {
				list, err := env.Core.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return err.Error()
				}
				for _, cm := range list.Items {
					if _, is := runtimesnapshot.JobName(cm.Name); is {
						return "ConfigMap " + cm.Name + " is still there"
					}
				}
				return nothing
			})
			wantNoCreates(t, before, ns)
		})
	}
}
