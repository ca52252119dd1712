package snapshot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// The garbage collector takes its time with the children of a deleted job, in which the
// next job of that name is there already.
func TestAJobMadeAgainUnderItsNameGetsItsOwnSnapshot(t *testing.T) {
	t.Parallel()
	const names, rounds = 4, 50
	for n := range names {
		t.Run(fmt.Sprintf("name %d", n), func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, builders.TorchSpec())
			seen := map[types.UID]bool{}
			for range rounds {
				job := env.NewJob(t, namespace, "a")
				cm := env.AwaitSnapshot(t, job)
				if seen[cm.UID] {
					t.Fatalf("ConfigMap %s serves a second job", cm.UID)
				}
				seen[cm.UID] = true
				env.DeleteJob(t, namespace, "a")
			}
			last := env.NewJob(t, namespace, "a")
			env.AwaitSnapshot(t, last)
			env.AwaitJobSet(t, last, false)
			env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
		})
	}
}

func TestAStrangersConfigMapIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.ConfigMap){
		"of nobody":           func(*corev1.ConfigMap) {},
		"of nobody, labelled": func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{trainer.LabelTrainJobName: "a"} },
		"of another kind of owner": func(cm *corev1.ConfigMap) {
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: types.UID(defaultNamespace(t).UID), Controller: ptr.To(true)}}
		},
		"of a namesake in another group": func(cm *corev1.ConfigMap) {
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "TrainJob", Name: "a", UID: "1", Controller: ptr.To(true)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, builders.TorchSpec())
			strange := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-runtime-snapshot"}, Data: map[string]string{"mine": "yes"}}
			change(strange)
			maps := env.Core.CoreV1().ConfigMaps(namespace)
			strange, err := maps.Create(t.Context(), strange, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			job := env.NewJob(t, namespace, "a")
			pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonSnapshotConflict, harness.Soon)
			if !strings.Contains(pending.Status.Message, strange.Name) {
				t.Errorf("the message does not name the ConfigMap: %s", pending.Status.Message)
			}
			env.AwaitEvent(t, namespace, "a", "Warning/SnapshotConflict")
			harness.Consistently(t, 3*time.Second, func() string {
				if now := env.SnapshotOf(t, namespace, "a"); now == nil || now.ResourceVersion != strange.ResourceVersion {
					return "the stranger's ConfigMap was written to"
				}
				if env.JobSetOf(t, namespace, "a") != nil {
					return "the job has a JobSet without a snapshot"
				}
				return ""
			})
			if err := maps.Delete(t.Context(), strange.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, time.Minute)
			env.AwaitSnapshot(t, job)
		})
	}
}

func defaultNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	ns, err := env.Core.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func TestAStrangersJobSetIsNotTouched(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	jobSets := env.JobSet.JobsetV1alpha2().JobSets(namespace)
	strange, err := jobSets.Create(t.Context(), &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: builders.PlainSpec().Template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	setJobSetStatus(t, namespace, "a", completed)
	strange = env.JobSetOf(t, namespace, "a")
	job := env.NewJob(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, harness.Soon)
	harness.Consistently(t, 2*time.Second, func() string {
		if now := env.JobSetOf(t, namespace, "a"); now == nil || now.ResourceVersion != strange.ResourceVersion {
			return "the stranger's JobSet was written to"
		}
		if state := env.Job(t, namespace, "a").Status.State; state != trainer.TrainJobPending {
			return fmt.Sprintf("the job is %s by a stranger's JobSet", state)
		}
		return ""
	})
	if err := jobSets.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.AwaitJobSet(t, job, false)
}

func TestTheEndOfAnOldJobSetIsNotTheNewJobs(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	old := env.NewJob(t, namespace, "a")
	env.AwaitJobSet(t, old, false)
	jobSets := env.JobSet.JobsetV1alpha2().JobSets(namespace)
	finalizers := func(list string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, list)
		if _, err := jobSets.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/hold"]`)
	setJobSetStatus(t, namespace, "a", completed)
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	env.DeleteJob(t, namespace, "a")
	harness.Eventually(t, harness.Soon, func() string {
		if env.JobSetOf(t, namespace, "a").DeletionTimestamp.IsZero() {
			return "the JobSet of the deleted job is not being deleted"
		}
		return ""
	})

	fresh := env.NewJob(t, namespace, "a")
	pending := env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, harness.Soon)
	if pending.UID != fresh.UID {
		t.Fatal("this is not the new job")
	}
	harness.Consistently(t, 3*time.Second, func() string {
		now := env.Job(t, namespace, "a")
		if now.Status.State != trainer.TrainJobPending || len(now.Status.JobsStatus) > 0 {
			return fmt.Sprintf("the new job is %s and counts %v by the old JobSet", now.Status.State, now.Status.JobsStatus)
		}
		return ""
	})
	finalizers("null")
	env.AwaitJobSet(t, fresh, false)
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
}
