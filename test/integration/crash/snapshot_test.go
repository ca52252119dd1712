package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

var runtimeGone = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		job := env.NewJob(t, s.namespace, "a")
		first, snapshot := jobSetOf(t, s, "a"), snapshotOf(t, s, "a")
		setImage(t, s, "another:test")
		if err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(s.namespace).Delete(t.Context(), harness.RuntimeName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		env.PatchJob(t, s.namespace, "a", harness.Suspend)
		awaitSuspended(t, s, "a", true)
		env.PlayHeldBack(t, s.namespace, "a", true)
		env.PatchJob(t, s.namespace, "a", `{"metadata":{"labels":{"edited":"yes"}},"spec":{"suspend":false}}`)
		awaitSuspended(t, s, "a", false)
		if err := env.JobSet.JobsetV1alpha2().JobSets(s.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, patience, func() string {
			if js := env.JobSetOf(t, s.namespace, "a"); js == nil || js.UID == first.UID {
				return "the JobSet has not been made again"
			}
			return ""
		})
		if got := imageOf(env.JobSetOf(t, s.namespace, "a").Spec); got != imageOf(first.Spec) {
			t.Errorf("the JobSet was made again with the image %s, want %s", got, imageOf(first.Spec))
		}
		if now := snapshotOf(t, s, job.Name); now.UID != snapshot.UID {
			t.Error("the snapshot is another one")
		}
	},
	after: func(t *testing.T, s *story) {
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 1, "patch configmaps": 0, "create jobsets": 2, "update jobsets": 0})
	},
}

// awaitSuspended waits until a JobSet is told to hold its Jobs back or to let them run.
func awaitSuspended(t *testing.T, s *story, name string, suspended bool) {
	t.Helper()
	harness.Eventually(t, patience, func() string {
		js := env.JobSetOf(t, s.namespace, name)
		if js == nil || (js.Spec.Suspend != nil && *js.Spec.Suspend) != suspended {
			return fmt.Sprintf("the JobSet of %s is not as it should be: suspended %v", name, suspended)
		}
		return ""
	})
}

const reuses = 8

var nameReuse = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		seen := map[types.UID]bool{}
		for range reuses {
			env.NewJob(t, s.namespace, "a")
			cm := snapshotOf(t, s, "a")
			if seen[cm.UID] {
				t.Fatal("a snapshot serves a second job")
			}
			seen[cm.UID] = true
			env.DeleteJob(t, s.namespace, "a")
		}
		env.NewJob(t, s.namespace, "a")
		jobSetOf(t, s, "a")
		snapshotOf(t, s, "a")
	},
	after: func(t *testing.T, s *story) {
		await(t, s, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods)
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": reuses + 1, "create jobsets": reuses + 1})
	},
}

var strangersConfigMap = scenario{
	before: func(t *testing.T, s *story) {
		torch(t, s)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-runtime-snapshot"}, Data: map[string]string{"mine": "yes"}}
		created, err := env.Core.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), cm, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.memory["version"] = created.ResourceVersion
		env.NewJob(t, s.namespace, "a")
	},
	during: func(t *testing.T, s *story) {
		await(t, s, "a", trainer.TrainJobPending, trainer.ReasonSnapshotConflict)
		harness.Consistently(t, 4*time.Second, func() string {
			if env.SnapshotOf(t, s.namespace, "a").ResourceVersion != s.memory["version"] {
				return "the stranger's ConfigMap was written to"
			}
			return ""
		})
		if err := env.Core.CoreV1().ConfigMaps(s.namespace).Delete(t.Context(), "a-runtime-snapshot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		jobSetOf(t, s, "a")
	},
	after: func(t *testing.T, s *story) {
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 1, "patch configmaps": 0, "create jobsets": 1})
	},
}

const flooded = 15

var runtimeFlood = scenario{
	before: torch,
	during: func(t *testing.T, s *story) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image","value":"image:%d"}]`, i)
					_, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(s.namespace).Patch(t.Context(), harness.RuntimeName, types.JSONPatchType, patch, metav1.PatchOptions{})
					if err != nil {
						t.Errorf("edit the runtime: %v", err)
						return
					}
				}
			}
		}()
		for i := range flooded {
			env.NewJob(t, s.namespace, named(i))
		}
		for i := range flooded {
			js, cm := jobSetOf(t, s, named(i)), snapshotOf(t, s, named(i))
			if built, frozen := imageOf(js.Spec), frozenImage(t, cm); built != frozen {
				t.Errorf("the JobSet of %s has the image %s, its snapshot %s", named(i), built, frozen)
			}
			s.memory[named(i)] = cm.ResourceVersion
		}
		close(stop)
		<-stopped
	},
	after: func(t *testing.T, s *story) {
		for i := range flooded {
			if now := env.SnapshotOf(t, s.namespace, named(i)).ResourceVersion; now != s.memory[named(i)] {
				t.Errorf("the snapshot of %s was written to again", named(i))
			}
		}
		atMost(t, counted(t, s.since, s.namespace), map[string]int{
			"create configmaps": flooded, "patch configmaps": 0, "update configmaps": 0, "create jobsets": flooded, "update jobsets": 0, "patch jobsets": 0,
		})
	},
}

var bothKinds = scenario{
	before: func(t *testing.T, s *story) {
		torch(t, s)
		ofCluster := builders.ClusterTrainingRuntime(s.namespace, builders.TorchSpec())
		if _, err := env.Trainer.TrainerV1alpha1().ClusterTrainingRuntimes().Create(t.Context(), ofCluster, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	},
	during: func(t *testing.T, s *story) {
		env.NewJob(t, s.namespace, "of-namespace")
		env.NewJob(t, s.namespace, "of-cluster", builders.Runtime(trainer.ClusterTrainingRuntimeKind, s.namespace))
		for name, kind := range map[string]string{"of-namespace": trainer.TrainingRuntimeKind, "of-cluster": trainer.ClusterTrainingRuntimeKind} {
			want := "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: " + kind + "\n"
			if data := snapshotOf(t, s, name).Data["runtime"]; !strings.HasPrefix(data, want) {
				t.Errorf("the snapshot of %s begins with %.80q", name, data)
			}
		}
	},
	after: func(t *testing.T, s *story) {
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 2, "create jobsets": 2})
	},
}

const bareMPI = `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: gone}
spec:
  mlPolicy: {numNodes: 2, mpi: {}}
  template:
    spec:
      replicatedJobs:
      - {name: launcher, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: "mpi:test"}]}}}}}
      - {name: node, template: {spec: {template: {spec: {containers: [{name: node, image: "mpi:test"}]}}}}}
`

// bareSnapshot is one taken when runtimes had no defaults, of a runtime that is gone.
var bareSnapshot = scenario{
	before: func(t *testing.T, s *story) {
		job := env.NewJob(t, s.namespace, "a", builders.Runtime(trainer.TrainingRuntimeKind, "gone"))
		cm := &corev1.ConfigMap{Data: map[string]string{"runtime": bareMPI}, ObjectMeta: metav1.ObjectMeta{
			Name: "a-runtime-snapshot", Labels: map[string]string{trainer.LabelTrainJobName: "a"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, trainer.SchemeGroupVersion.WithKind(trainer.TrainJobKind))},
		}}
		if _, err := env.Core.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	},
	during: func(t *testing.T, s *story) {
		jobSetOf(t, s, "a")
		await(t, s, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods)
	},
	after: func(t *testing.T, s *story) {
		// The hostfile and the key, each once.
		atMost(t, counted(t, s.since, s.namespace), map[string]int{"create configmaps": 1, "create secrets": 1, "create jobsets": 1, "patch configmaps": 0})
	},
}
