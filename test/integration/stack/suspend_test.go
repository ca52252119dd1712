package stack

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// promptly is how soon a change of spec.suspend has to take effect.
const promptly = 2 * time.Second

func TestSuspendAndResumeTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
	start := env.AuditNow(t)
	env.NewJob(t, namespace, "a")
	awaitPods(t, namespace, "a", 2)
	env.AwaitState(t, namespace, "a", trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	switchTo := func(suspended bool) {
		t.Helper()
		env.PatchJob(t, namespace, "a", fmt.Sprintf(`{"spec":{"suspend":%v}}`, suspended))
		harness.Eventually(t, promptly, func() string {
			if is := ptr.Deref(env.JobSetOf(t, namespace, "a").Spec.Suspend, false); is != suspended {
				return fmt.Sprintf("suspend of the JobSet is %v", is)
			}
			if is := env.Job(t, namespace, "a").Status.State == trainer.TrainJobSuspended; is != suspended {
				return "the status does not follow"
			}
			return ""
		})
	}
	for range 2 {
		switchTo(true)
		awaitPods(t, namespace, "a", 0)
		switchTo(false)
		awaitPods(t, namespace, "a", 2)
	}
	switchTo(true)
	nothingRefused(t, start, namespace)
	patches := harness.Summary(env.Writes(t, start, namespace))
	if patches["patch jobsets"] != 5 || patches["create jobsets"] != 1 || patches["update jobsets"] != 0 {
		t.Errorf("writes %v, want one creation and five patches of the JobSet", patches)
	}
}

// jobSetWatch records every state of a namespace's JobSets.
type jobSetWatch struct {
	mu   sync.Mutex
	seen []jobset.JobSet
}

func watchJobSets(t *testing.T, namespace string) *jobSetWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := env.JobSet.JobsetV1alpha2().JobSets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w := &jobSetWatch{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if js, ok := event.Object.(*jobset.JobSet); ok && event.Type != watch.Deleted {
				w.mu.Lock()
				w.seen = append(w.seen, *js)
				w.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// unsuspended are the node selectors of all states in which a JobSet was let run.
func (w *jobSetWatch) unsuspended() []map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var selectors []map[string]string
	for _, js := range w.seen {
		if ptr.Deref(js.Spec.Suspend, false) {
			continue
		}
		for _, rjob := range js.Spec.ReplicatedJobs {
			if rjob.Name == "node" {
				selectors = append(selectors, rjob.Template.Spec.Template.Spec.NodeSelector)
			}
		}
	}
	return selectors
}

func (w *jobSetWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = nil
}

// Both nodes carry these labels.
var (
	byOS   = map[string]string{corev1.LabelOSStable: "linux"}
	byArch = map[string]string{corev1.LabelArchStable: "amd64"}
)

func labelNodes(t *testing.T, labels map[string]string) {
	t.Helper()
	nodes, err := env.Core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		for key, value := range labels {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
			if _, err := env.Core.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A job that is resumed on the nodes it was given must not start a pod elsewhere first.
func TestAPatchReachesTheJobSetBeforeItIsResumed(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(namespace string){
		"which does not exist yet": func(namespace string) {
			env.NewJob(t, namespace, "a", builders.Suspended(true))
			env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, "", harness.Soon)
		},
		"which ran before": func(namespace string) {
			job := env.NewJob(t, namespace, "a")
			awaitPods(t, namespace, "a", 2)
			env.PatchJob(t, namespace, "a", harness.Suspend)
			env.AwaitJobSet(t, job, true)
			awaitPods(t, namespace, "a", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.NewRuntime(t, namespace, holding(builders.TorchSpec()))
			first(namespace)
			states := watchJobSets(t, namespace)
			states.reset()
			update(t, namespace, "a", func(job *trainer.TrainJob) {
				job.Spec.RuntimePatches = []trainer.RuntimePatch{placed("example.com/m", byOS)}
				job.Spec.Suspend = ptr.To(false)
			})
			for _, pod := range awaitPods(t, namespace, "a", 2) {
				if diff := cmp.Diff(byOS, pod.Spec.NodeSelector); diff != "" {
					t.Errorf("node selector of pod %s (-want +got):\n%s", pod.Name, diff)
				}
			}
			for _, selector := range states.unsuspended() {
				if diff := cmp.Diff(byOS, selector); diff != "" {
					t.Fatalf("the JobSet was let run with another node selector (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// claiming is a runtime with initializers and a volume claim, held while it trains. The
// volume is there, because nobody provides one for a played node.
func claiming(t *testing.T, namespace, job string) trainer.TrainingRuntimeSpec {
	t.Helper()
	volumes, capacity := env.Core.CoreV1().PersistentVolumes(), corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: capacity, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/checkpoints"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "checkpoints-" + job},
		},
	}
	if _, err := volumes.Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = volumes.Delete(context.Background(), namespace, metav1.DeleteOptions{}) })
	spec := holding(builders.InitializerSpec())
	node := &spec.Template.Spec.ReplicatedJobs[2].Template.Spec.Template.Spec.Containers[0]
	node.VolumeMounts = append(node.VolumeMounts, corev1.VolumeMount{Name: "checkpoints", MountPath: "/checkpoints"})
	spec.Template.Spec.VolumeClaimPolicies = []jobset.VolumeClaimPolicy{{
		Templates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "checkpoints"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
				StorageClassName: ptr.To(""),
				Resources:        corev1.VolumeResourceRequirements{Requests: capacity},
			},
		}},
		RetentionPolicy: &jobset.VolumeRetentionPolicy{WhenDeleted: ptr.To(jobset.RetentionPolicyDelete)},
	}}
	return spec
}

// JobSet merges its template into the Jobs that have survived, so that a removed key
// would live on in the pods.
func TestAReplacedPatchReachesThePodsAndNothingElseIsLost(t *testing.T) {
	t.Parallel()
	labelNodes(t, byArch)
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, claiming(t, namespace, "a"))
	start := env.AuditNow(t)
	job := env.NewJob(t, namespace, "a", builders.Patches(placed("example.com/m", byOS)))
	awaitPods(t, namespace, "a", 2)
	kept := keep(t, namespace)

	for _, round := range []struct {
		patient  bool
		selector map[string]string
	}{{true, byArch}, {false, byOS}} {
		env.PatchJob(t, namespace, "a", harness.Suspend)
		env.AwaitJobSet(t, job, true)
		if round.patient {
			awaitPods(t, namespace, "a", 0)
		}
		update(t, namespace, "a", func(job *trainer.TrainJob) {
			job.Spec.RuntimePatches = []trainer.RuntimePatch{placed("example.com/m", round.selector)}
			job.Spec.Suspend = ptr.To(false)
		})
		env.AwaitJobSet(t, job, false)
		for _, pod := range awaitPods(t, namespace, "a", 2) {
			if diff := cmp.Diff(round.selector, pod.Spec.NodeSelector); diff != "" {
				t.Errorf("node selector of pod %s (-want +got):\n%s", pod.Name, diff)
			}
		}
		if diff := cmp.Diff(kept, keep(t, namespace)); diff != "" {
			t.Errorf("what should have stayed (-before +after):\n%s", diff)
		}
	}
	letGo(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
	nothingRefused(t, start, namespace)
}

// keep is what a resumed job must find again: the JobSet, the volume claim, and the
// finished initializers with their pods.
func keep(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	kept := map[string]types.UID{"JobSet": env.JobSetOf(t, namespace, "a").UID}
	claims, err := env.Core.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		t.Fatalf("volume claims: %v (%v), want one", claims, err)
	}
	kept["claim "+claims.Items[0].Name] = claims.Items[0].UID
	jobs := childJobs(t, namespace, "a")
	for _, step := range []string{trainer.StepDatasetInitializer, trainer.StepModelInitializer} {
		if jobs[step].Status.Succeeded != 1 {
			t.Errorf("the Job %s has not finished: %+v", step, jobs[step].Status)
		}
		kept["Job "+step] = jobs[step].UID
		for _, pod := range podsOf(t, namespace, "a", step) {
			kept["pod of "+step] = pod.UID
		}
	}
	return kept
}
