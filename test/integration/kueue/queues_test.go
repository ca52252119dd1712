package kueue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

const (
	queueLabel    = "kueue.x-k8s.io/queue-name"
	priorityLabel = "kueue.x-k8s.io/priority-class"
	queueName     = "queue"
)

func kueueResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: plural}
}

// create makes an object of Kueue's for the time of a test.
func create(t *testing.T, plural, namespace, text string) {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion(kueueResource(plural).GroupVersion().String())
	api := env.Dynamic.Resource(kueueResource(plural)).Namespace(namespace)
	if _, err := api.Create(t.Context(), &object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	})
}

// newQueue makes a queue in a namespace, with two CPUs and two GPUs of each pool. Its
// objects of the cluster have the namespace's name.
func newQueue(t *testing.T, namespace string, pools ...string) {
	t.Helper()
	var flavors []string
	for _, pool := range pools {
		flavor := namespace + "-" + pool
		create(t, "resourceflavors", "", fmt.Sprintf(`{kind: ResourceFlavor, metadata: {name: %s}, spec: {nodeLabels: {%s: %s}}}`, flavor, poolLabel, pool))
		flavors = append(flavors, fmt.Sprintf(`{name: %s, resources: [{name: cpu, nominalQuota: 2}, {name: nvidia.com/gpu, nominalQuota: 2}]}`, flavor))
	}
	create(t, "clusterqueues", "", fmt.Sprintf(`{kind: ClusterQueue, metadata: {name: %[1]s}, spec: {
		namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}},
		preemption: {withinClusterQueue: LowerPriority}, flavorFungibility: {whenCanPreempt: MayStopSearch},
		resourceGroups: [{coveredResources: [cpu, nvidia.com/gpu], flavors: [%[2]s]}]}}`, namespace, strings.Join(flavors, ", ")))
	create(t, "localqueues", namespace, fmt.Sprintf(`{kind: LocalQueue, metadata: {name: %s}, spec: {clusterQueue: %s}}`, queueName, namespace))
}

// withCPU is a runtime whose training pods ask for so much.
func withCPU(spec trainer.TrainingRuntimeSpec, quantity string) trainer.TrainingRuntimeSpec {
	for i := range spec.Template.Spec.ReplicatedJobs {
		container := &spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Containers[0]
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
	}
	return spec
}

// queued puts a job into the queue.
func queued(job *trainer.TrainJob) { metav1.SetMetaDataLabel(&job.ObjectMeta, queueLabel, queueName) }

// priority gives a job a priority class.
func priority(class string) builders.JobOption {
	return func(job *trainer.TrainJob) { metav1.SetMetaDataLabel(&job.ObjectMeta, priorityLabel, class) }
}

// submit creates a job of the namespace's runtime in the queue. Kueue's admission refuses a
// job whose runtime it has not heard of, which may take a moment after its creation.
func submit(t *testing.T, namespace, name string, opts ...builders.JobOption) {
	t.Helper()
	opts = append([]builders.JobOption{builders.Runtime(trainer.TrainingRuntimeKind, harness.RuntimeName), queued}, opts...)
	job := builders.TrainJob(name, opts...)
	job.Namespace = namespace
	harness.Eventually(t, harness.Soon, func() string {
		_, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// touch changes a label, so that Kueue looks at the job again.
func touch(t *testing.T, namespace, name string) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		_, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"look":"again"}}}`), metav1.PatchOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// workload is what the tests look at of a Workload.
type workload struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PodSets []struct {
			Name  string `json:"name"`
			Count int32  `json:"count"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Admission  *struct {
			PodSetAssignments []struct {
				Name    string            `json:"name"`
				Count   int32             `json:"count"`
				Flavors map[string]string `json:"flavors"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		ReclaimablePods []struct {
			Name  string `json:"name"`
			Count int32  `json:"count"`
		} `json:"reclaimablePods"`
		SchedulingStats *struct {
			Evictions []struct {
				Reason string `json:"reason"`
			} `json:"evictions"`
		} `json:"schedulingStats"`
	} `json:"status"`
}

func (w *workload) is(condition string) bool {
	return w != nil && meta.IsStatusConditionTrue(w.Status.Conditions, condition)
}

// evictions are the reasons for which Kueue has evicted the job so far.
func (w *workload) evictions() []string {
	var reasons []string
	if w != nil && w.Status.SchedulingStats != nil {
		for _, eviction := range w.Status.SchedulingStats.Evictions {
			reasons = append(reasons, eviction.Reason)
		}
	}
	return reasons
}

// workloadOf is the Workload of a job, nil if there is none.
func workloadOf(t *testing.T, namespace, job string) *workload {
	t.Helper()
	list, err := env.Dynamic.Resource(kueueResource("workloads")).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if !slices.ContainsFunc(item.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == trainer.TrainJobKind && o.Name == job }) {
			continue
		}
		var w workload
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &w); err != nil {
			t.Fatal(err)
		}
		return &w
	}
	return nil
}

// awaitWorkload waits until a job's Workload has a condition.
func awaitWorkload(t *testing.T, namespace, job, condition string) *workload {
	t.Helper()
	var w *workload
	harness.Eventually(t, 2*harness.Soon, func() string {
		if w = workloadOf(t, namespace, job); !w.is(condition) {
			return fmt.Sprintf("the Workload of job %s is not %s: %+v", job, condition, w)
		}
		return ""
	})
	return w
}

// setActive has Kueue evict a job, or take it back into its queue.
func setActive(t *testing.T, namespace, job string, active bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"active":%t}}`, active)
	_, err := env.Dynamic.Resource(kueueResource("workloads")).Namespace(namespace).
		Patch(t.Context(), workloadOf(t, namespace, job).Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRunningIn waits until the training pods of a job run on the nodes of a pool, and
// checks that they are there because Kueue said so.
func awaitRunningIn(t *testing.T, namespace, job, pool string, n int) {
	t.Helper()
	env.AwaitState(t, namespace, job, trainer.TrainJobRunning, trainer.ReasonPodsReady, 2*harness.Soon)
	for _, pod := range env.AwaitPods(t, namespace, job, n) {
		if got := pod.Spec.NodeSelector[poolLabel]; got != pool || pools[pod.Spec.NodeName] != pool {
			t.Errorf("pod %s has the node selector %v and is on node %q, want those of pool %s", pod.Name, pod.Spec.NodeSelector, pod.Spec.NodeName, pool)
		}
	}
}

// awaitHeldBack waits until a job is suspended and has no pods.
func awaitHeldBack(t *testing.T, namespace, job string) {
	t.Helper()
	env.AwaitState(t, namespace, job, trainer.TrainJobSuspended, trainer.ReasonSuspended, 2*harness.Soon)
	harness.Eventually(t, harness.Soon, func() string {
		if pods := env.LivePods(t, namespace, job, ""); len(pods) > 0 {
			return fmt.Sprintf("job %s is suspended and has %d pods", job, len(pods))
		}
		return ""
	})
}

// finish lets the pods of a job end, and waits until the job is complete and Kueue knows it.
func finish(t *testing.T, namespace, job string) {
	t.Helper()
	env.LetGo(t, namespace, job, "")
	env.AwaitState(t, namespace, job, trainer.TrainJobComplete, "", 2*harness.Soon)
	awaitWorkload(t, namespace, job, "Finished")
}
