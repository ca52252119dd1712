package helpers

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// gang is a runtime whose pods one of the schedulers places together.
func gang(source trainer.PodGroupPolicySource) trainer.TrainingRuntimeSpec {
	spec := builders.InitializerSpec()
	spec.PodGroupPolicy = &trainer.PodGroupPolicy{PodGroupPolicySource: source}
	return spec
}

func podGroupOf(t *testing.T, group, version, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"}
	object, err := env.Dynamic.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// A scheduler may be installed after the jobs that need it, and may be removed.
func TestAGangJobStartsWhenItsSchedulerIsInstalled(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, gang(trainer.PodGroupPolicySource{Coscheduling: &trainer.CoschedulingPodGroupPolicySource{}}))
	start := env.AuditNow(t)
	pid := env.Controller.Pid()
	for i := range 5 {
		env.NewJob(t, namespace, fmt.Sprintf("a-%d", i))
	}
	for i := range 5 {
		env.AwaitState(t, namespace, fmt.Sprintf("a-%d", i), trainer.TrainJobPending, trainer.ReasonCreationFailed, harness.Soon)
	}
	// The others go on meanwhile, and nobody presses the API server.
	other := env.Namespace(t)
	env.NewRuntime(t, other, builders.TorchSpec())
	env.AwaitJobSet(t, env.NewJob(t, other, "b"), false)
	tries := env.Audit(t, start, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Match: func(e cluster.AuditEvent) bool {
		return e.Group == "scheduling.x-k8s.io" || e.Resource == "podgroups"
	}})
	if len(tries) > 5 {
		t.Errorf("%d requests about a kind that is not there", len(tries))
	}

	env.Kubectl(t, "apply", "-f", filepath.Join("testdata", "coscheduling.yaml"))
	for i := range 5 {
		env.AwaitState(t, namespace, fmt.Sprintf("a-%d", i), trainer.TrainJobPending, trainer.ReasonWaitingForPods, 70*time.Second)
	}
	if env.Controller.Pid() != pid {
		t.Error("the controller was restarted")
	}
	group := podGroupOf(t, "scheduling.x-k8s.io", "v1alpha1", namespace, "a-0")
	if group == nil {
		t.Fatal("the job has a JobSet and no PodGroup")
	}
	want := map[string]any{"minMember": int64(2), "scheduleTimeoutSeconds": int64(60)}
	if diff := cmp.Diff(want, group.Object["spec"]); diff != "" || !metav1.IsControlledBy(group, env.Job(t, namespace, "a-0")) {
		t.Errorf("PodGroup (-want +got), owners %v:\n%s", group.GetOwnerReferences(), diff)
	}
	for _, rjob := range env.JobSetOf(t, namespace, "a-0").Spec.ReplicatedJobs {
		if member := rjob.Template.Spec.Template.Labels["scheduling.x-k8s.io/pod-group"] == "a-0"; member != (rjob.Name == "node") {
			t.Errorf("pods of %s are in the group: %v", rjob.Name, member)
		}
	}

	complete(t, namespace, "a-0")
	env.AwaitState(t, namespace, "a-0", trainer.TrainJobComplete, "", harness.Soon)
	harness.Eventually(t, harness.Soon, func() string {
		if podGroupOf(t, "scheduling.x-k8s.io", "v1alpha1", namespace, "a-0") != nil {
			return "the PodGroup of a job that is complete is still there"
		}
		return ""
	})
	if podGroupOf(t, "scheduling.x-k8s.io", "v1alpha1", namespace, "a-1") == nil {
		t.Error("the PodGroup of a job that goes on is gone")
	}
}

func TestVolcanosGroupIsMadeAnewBeforeAJobIsResumed(t *testing.T) {
	env.Kubectl(t, "apply", "-f", filepath.Join("testdata", "volcano.yaml"))
	env.Kubectl(t, "wait", "--for", "condition=Established", "crd/podgroups.scheduling.volcano.sh")
	namespace := env.Namespace(t)
	spec := gang(trainer.PodGroupPolicySource{Volcano: &trainer.VolcanoPodGroupPolicySource{NetworkTopology: &trainer.VolcanoNetworkTopology{}}})
	spec.Template.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "gold"}
	env.NewRuntime(t, namespace, spec)
	job := env.NewJob(t, namespace, "a", builders.Suspended(true))
	env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, "", harness.Soon)
	if podGroupOf(t, "scheduling.volcano.sh", "v1beta1", namespace, "a") != nil {
		t.Error("a job that waits in a queue has a PodGroup")
	}
	env.PatchJob(t, namespace, "a", harness.Resume)
	env.AwaitJobSet(t, job, false)
	group := podGroupOf(t, "scheduling.volcano.sh", "v1beta1", namespace, "a")
	want := map[string]any{"minMember": int64(2), "queue": "gold", "networkTopology": map[string]any{"mode": "hard", "highestTierAllowed": int64(1)}}
	if diff := cmp.Diff(want, group.Object["spec"]); diff != "" {
		t.Errorf("PodGroup (-want +got):\n%s", diff)
	}

	env.PatchJob(t, namespace, "a", harness.Suspend)
	env.AwaitJobSet(t, job, true)
	env.Kubectl(t, "-n", namespace, "delete", "podgroups.scheduling.volcano.sh", "a")
	env.PlayHeldBack(t, namespace, "a", true)
	env.PatchJob(t, namespace, "a", harness.Resume)
	env.AwaitJobSet(t, job, false)
	if podGroupOf(t, "scheduling.volcano.sh", "v1beta1", namespace, "a") == nil {
		t.Error("the job was resumed without its PodGroup")
	}
}
