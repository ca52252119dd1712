package state

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// wantMessage checks that the message of a Pending job holds every one of the words.
func wantMessage(t *testing.T, job *trainer.TrainJob, words ...string) {
	t.Helper()
	message := job.Status.Message
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("message %q does not say %q", message, word)
		}
	}
}

// This test and the two below are not parallel: they want a wake-up within two seconds.
func TestJobWaitsForItsRuntimeAndGoesOnWhenItIsCreated(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, newJob(ns, "a"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, soon)
	wantMessage(t, job, `TrainingRuntime "torch"`, ns)
	createRuntime(t, ns, "torch", builders.TorchSpec())
	awaitJobSet(t, ns, "a", "", awake)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
}

func TestJobWaitsForItsClusterRuntime(t *testing.T) {
	ns := env.Namespace(t)
	name := "of-" + ns
	env.Create(t, newJob(ns, "a", builders.Runtime(trainer.ClusterTrainingRuntimeKind, name)))
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, soon)
	client := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes()
	if _, err := client.Create(t.Context(), builders.ClusterTrainingRuntime(name, builders.TorchSpec()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJobSet(t, ns, "a", "", awake)
	data := awaitSnapshot(t, ns, "a", "", soon).Data[runtimesnapshot.DataKey]
	if want := "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\n"; !strings.HasPrefix(data, want) {
		t.Errorf("the snapshot begins with %.100q, want %q", data, want)
	}
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRuntimeThatCannotBeUsedIsExplainedAndItsEditWakesTheJob(t *testing.T) {
	tests := map[string]struct {
		spoil func(*trainer.TrainingRuntimeSpec)
		words []string
	}{
		"no-job-to-inject-into": {
			func(spec *trainer.TrainingRuntimeSpec) {
				spec.MLPolicy.Torch.EnvInjection = &trainer.EnvInjection{Targets: []trainer.EnvInjectionTarget{{JobName: "worker", ContainerNames: []string{"check"}}}}
			},
			[]string{"TrainingRuntime torch", "targets[0].jobName", `"worker"`},
		},
		"no-host-names": {
			func(spec *trainer.TrainingRuntimeSpec) {
				spec.Template.Spec.Network = &jobset.Network{EnableDNSHostnames: ptr.To(false)}
			},
			[]string{"spec.template.spec.network.enableDNSHostnames", "set true"},
		},
		"no-container-node": {
			func(spec *trainer.TrainingRuntimeSpec) {
				spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Name = "main"
			},
			[]string{`"node"`, "main", "containers"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			spec := builders.TorchSpec()
			test.spoil(&spec)
			createRuntime(t, ns, "torch", spec)
			before := env.AuditNow(t)
			env.Create(t, newJob(ns, "a"))
			job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonRuntimeInvalid, soon)
			wantMessage(t, job, test.words...)
			wantNoCreates(t, before, ns)
			editRuntime(t, ns, "torch", func(spec *trainer.TrainingRuntimeSpec) { *spec = builders.TorchSpec() })
			awaitJobSet(t, ns, "a", "", awake)
			env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
		})
	}
}

func TestSecondMistakeInARuntimeReplacesTheFirst(t *testing.T) {
	t.Parallel()
	ns := env.Namespace(t)
	spec := builders.TorchSpec()
	spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Name = "main"
	createRuntime(t, ns, "torch", spec)
	env.Create(t, newJob(ns, "a"))
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonRuntimeInvalid, soon)
	editRuntime(t, ns, "torch", func(spec *trainer.TrainingRuntimeSpec) {
		spec.Template.Spec.Network = &jobset.Network{EnableDNSHostnames: ptr.To(false)}
		spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Name = "node"
	})
	harness.Eventually(t, soon, func() string {
		message := env.Job(t, ns, "a").Status.Message
		if !strings.Contains(message, "find each other by host name") {
			return "the message is still " + message
		}
		return nothing
	})
}

// strangersSnapshot is a ConfigMap where the snapshot of a job would be.
func strangersSnapshot(t *testing.T, ns, job string, labels map[string]string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: runtimesnapshot.Name(job), Labels: labels},
		Data:       map[string]string{"precious": "yes"},
	}
	created, err := env.Core.CoreV1().ConfigMaps(ns).Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func deleteConfigMap(t *testing.T, ns, name string) {
	t.Helper()
	if err := env.Core.CoreV1().ConfigMaps(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestConfigMapOfAStrangerIsNotTouchedAndItsGoingIsNoticed(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"unlabelled": nil,
		"labelled":   {trainer.LabelTrainJobName: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := setUp(t)
			stranger := strangersSnapshot(t, ns, "a", labels)
			env.Create(t, newJob(ns, "a"))
			job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonSnapshotConflict, soon)
			wantMessage(t, job, stranger.Name)
			left, err := env.Core.CoreV1().ConfigMaps(ns).Get(t.Context(), stranger.Name, metav1.GetOptions{})
			if err != nil || left.ResourceVersion != stranger.ResourceVersion {
				t.Errorf("the stranger's ConfigMap was touched (%v)", err)
			}
			before := env.AuditNow(t)
			harness.Consistently(t, 4*time.Second, func() string { return awaitedConflict(t, ns) })
			if writes := requests(t, before, ns, cluster.AuditFilter{Writes: true, Match: notOfEvents}); len(writes) > 3 {
				t.Errorf("%d writes while nothing happens:\n%s", len(writes), listed(writes))
			}
			deleteConfigMap(t, ns, stranger.Name)
			awaitJobSet(t, ns, "a", "", time.Minute)
		})
	}
}

// awaitedConflict says when a job no longer waits for a stranger's ConfigMap to go.
func awaitedConflict(t *testing.T, ns string) string {
	t.Helper()
	if got := env.Job(t, ns, "a").Status; got.Reason != trainer.ReasonSnapshotConflict {
		return "the reason is " + got.Reason
	}
	return nothing
}

func TestSnapshotThatIsNotARuntimeIsExplained(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a", builders.Suspended(true)))
	cm := replaceSnapshot(t, ns, "a", "{corrupt")
	setSuspend(t, ns, "a", false)
	job := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonSnapshotInvalid, soon)
	wantMessage(t, job, cm.Name, "delete the ConfigMap")
	deleteConfigMap(t, ns, cm.Name)
	awaitJobSet(t, ns, "a", "", soon)
}

func TestSnapshotEditedInPlaceIsRefused(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	// Not immutable, as Trainer leaves them: only such a snapshot can be edited.
	job := env.Create(t, newJob(ns, "a", builders.Suspended(true)))
	cm := replaceSnapshot(t, ns, "a", awaitSnapshot(t, ns, "a", "", soon).Data[runtimesnapshot.DataKey])
	awaitRecorded(t, ns, "a", cm)
	cm.Data[runtimesnapshot.DataKey] += "# an edit\n"
	if _, err := env.Core.CoreV1().ConfigMaps(ns).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := env.AuditNow(t)
	setSuspend(t, ns, job.Name, false)
	job = env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonSnapshotInvalid, soon)
	wantMessage(t, job, cm.Name, "digest")
	wantNoCreates(t, before, ns)
}

// replaceSnapshot puts another ConfigMap, of the job's own but not immutable, in the
// place of its snapshot. The controller may be as quick as we are: then we try again.
func replaceSnapshot(t *testing.T, ns, name, data string) *corev1.ConfigMap {
	t.Helper()
	client := env.Core.CoreV1().ConfigMaps(ns)
	old := awaitSnapshot(t, ns, name, "", soon)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: old.Name, Labels: old.Labels, OwnerReferences: old.OwnerReferences},
		Immutable:  ptr.To(false),
		Data:       map[string]string{runtimesnapshot.DataKey: data},
	}
	var created *corev1.ConfigMap
	harness.Eventually(t, soon, func() string {
		if err := client.Delete(t.Context(), cm.Name, metav1.DeleteOptions{}); err != nil {
			return err.Error()
		}
		var err error
		if created, err = client.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return nothing
	})
	return created
}

func TestSnapshotEditedWhileTheJobRunsIsWarnedOf(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	cm := replaceSnapshot(t, ns, "a", awaitSnapshot(t, ns, "a", "", soon).Data[runtimesnapshot.DataKey])
	awaitRecorded(t, ns, "a", cm)
	cm.Data[runtimesnapshot.DataKey] += "# an edit\n"
	if _, err := env.Core.CoreV1().ConfigMaps(ns).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, ns, "a", trainer.ReasonSnapshotInvalid)
	if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobRunning {
		t.Errorf("the job is %s: a JobSet that runs has no need of the snapshot", state)
	}
}

// awaitRecorded waits until the status of a job names a snapshot.
func awaitRecorded(t *testing.T, ns, name string, cm *corev1.ConfigMap) {
	t.Helper()
	harness.Eventually(t, soon, func() string {
		if recorded := env.Job(t, ns, name).Status.RuntimeSnapshot; recorded == nil || recorded.UID != cm.UID {
			return "the snapshot is not recorded in the status"
		}
		return nothing
	})
}
