package migration

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
	"github.com/trainjob/controller/test/trainerv23"
)

// Jobs of releases before v2.3, which knew no snapshots, and jobs whose JobSet is gone.
const (
	earlierRunning = "earlier-running"
	earlierPaused  = "earlier-paused"
	bareRunning    = "bare-running"
	bareQueued     = "bare-queued"
)

// found is a namespace as an older controller has left it.
type found struct {
	namespace string
	// pods of the jobs that run, and the UIDs of everything else by kind and name.
	pods map[string][]string
	uids map[string]types.UID
	// since the moment of taking over.
	since cluster.AuditPosition
}

// jobsOfEveryKind leaves one job of every kind behind and starts the controller when
// those that run do so.
func jobsOfEveryKind(t *testing.T) found {
	t.Helper()
	namespace := leftBehind(t)
	for _, job := range []string{trainerv23.Running, trainerv23.Queued, trainerv23.Paused, trainerv23.MPIRunning, trainerv23.MPIQueued} {
		leave(t, namespace, job, trainerv23.Options{})
	}
	withoutSnapshot, alone := []string{"ConfigMap"}, []string{"ConfigMap", "JobSet"}
	leave(t, namespace, trainerv23.Running, trainerv23.Options{Name: earlierRunning, Without: withoutSnapshot})
	leave(t, namespace, trainerv23.Paused, trainerv23.Options{Name: earlierPaused, Without: withoutSnapshot})
	leave(t, namespace, trainerv23.Running, trainerv23.Options{Name: bareRunning, Without: alone})
	leave(t, namespace, trainerv23.Queued, trainerv23.Options{Name: bareQueued, Without: alone})

	f := found{namespace: namespace, pods: map[string][]string{}, uids: map[string]types.UID{}}
	for job, n := range map[string]int{trainerv23.Running: 2, trainerv23.MPIRunning: 3, earlierRunning: 2} {
		f.pods[job] = uids(awaitPods(t, namespace, job, n))
	}
	for _, job := range []string{trainerv23.Queued, trainerv23.Paused, trainerv23.MPIQueued, earlierPaused} {
		awaitHeldBack(t, namespace, job)
	}
	f.uids = f.now(t)
	f.since = env.AuditNow(t)
	env.WithController(t)
	return f
}

// awaitHeldBack waits until the JobSet controller has suspended the Jobs of a JobSet.
func awaitHeldBack(t *testing.T, namespace, job string) {
	t.Helper()
	harness.Eventually(t, 2*harness.Soon, func() string {
		for _, c := range env.JobSetOf(t, namespace, job).Status.Conditions {
			if c.Type == "Suspended" && c.Status == metav1.ConditionTrue {
				return ""
			}
		}
		return "the JobSet of " + job + " is not suspended"
	})
}

// now are the UIDs of the ConfigMaps and JobSets in the namespace.
func (f found) now(t *testing.T) map[string]types.UID {
	t.Helper()
	all := map[string]types.UID{}
	maps, err := env.Core.CoreV1().ConfigMaps(f.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range maps.Items {
		all["ConfigMap "+cm.Name] = cm.UID
	}
	sets, err := env.JobSet.JobsetV1alpha2().JobSets(f.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, js := range sets.Items {
		all["JobSet "+js.Name] = js.UID
	}
	return all
}

// wantSnapshot waits until a job's snapshot carries our label and is recorded, and says
// whether it is the one that was there before.
func (f found) wantSnapshot(t *testing.T, job string, adopted bool) *corev1.ConfigMap {
	t.Helper()
	var cm *corev1.ConfigMap
	harness.Eventually(t, harness.Soon, func() string {
		recorded := env.Job(t, f.namespace, job).Status.RuntimeSnapshot
		cm = env.SnapshotOf(t, f.namespace, job)
		if cm == nil || cm.Labels[trainer.LabelTrainJobName] != job || recorded == nil || recorded.UID != cm.UID {
			return fmt.Sprintf("job %s has no snapshot that is labelled and recorded: %v", job, recorded)
		}
		return ""
	})
	if before, was := f.uids["ConfigMap "+cm.Name]; was != adopted || (adopted && before != cm.UID) {
		t.Errorf("the snapshot of %s has UID %s, before it was %q, want it to be adopted: %v", job, cm.UID, before, adopted)
	}
	return cm
}

// wantUntouched checks that a running job has the same JobSet and pods as before, and
// that nothing was written to the JobSet.
func (f found) wantUntouched(t *testing.T, job string) {
	t.Helper()
	env.AwaitState(t, f.namespace, job, trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
	for _, e := range writesTo(t, f.since, f.namespace, job) {
		if e.Resource == "jobsets" && e.Name == job {
			t.Errorf("%s of the running JobSet %s", e.Verb, job)
		}
	}
	if diff := cmp.Diff(f.pods[job], uids(pods(t, f.namespace, job))); diff != "" {
		t.Errorf("pods of %s (-before +after):\n%s", job, diff)
	}
	if got := env.JobSetOf(t, f.namespace, job).UID; got != f.uids["JobSet "+job] {
		t.Errorf("the JobSet of %s is another one", job)
	}
}

// wantStamped waits until the suspended JobSet of a job has been brought up to date once.
func (f found) wantStamped(t *testing.T, job string) {
	t.Helper()
	env.AwaitState(t, f.namespace, job, trainer.TrainJobSuspended, "", harness.Soon)
	harness.Eventually(t, harness.Soon, func() string {
		if js := env.JobSetOf(t, f.namespace, job); js.Annotations[trainer.AnnotationPatchesHash] == "" || js.UID != f.uids["JobSet "+job] {
			return fmt.Sprintf("the JobSet of %s is not the old one with a hash of its patches: %v", job, js.Annotations)
		}
		return ""
	})
}

// resumeElsewhere resumes a job with other patches than it had, and checks that its pods
// have them and no others.
func (f found) resumeElsewhere(t *testing.T, job string, n int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"suspend":false,"runtimePatches":[{"manager":"kueue.x-k8s.io/manager","trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[
		{"name":"node","template":{"spec":{"template":{"spec":{"nodeSelector":{%q:"yes"}}}}}}]}}}}]}}`, elsewhere)
	env.PatchJob(t, f.namespace, job, patch)
	for _, pod := range awaitPods(t, f.namespace, job, n) {
		if diff := cmp.Diff(map[string]string{elsewhere: "yes"}, pod.Spec.NodeSelector); diff != "" {
			t.Errorf("node selector of pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
	env.AwaitState(t, f.namespace, job, trainer.TrainJobRunning, trainer.ReasonPodsReady, harness.Soon)
}

// elsewhere is a label of all nodes that no recorded job asks for.
const elsewhere = "example.com/elsewhere"

func labelNodes(t *testing.T) {
	t.Helper()
	nodes, err := env.Core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, elsewhere)
		if _, err := env.Core.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnfinishedJobsAreTakenOver(t *testing.T) {
	labelNodes(t)
	f := jobsOfEveryKind(t)
	steps := map[string]func(t *testing.T){
		"a running job": func(t *testing.T) {
			if cm := f.wantSnapshot(t, trainerv23.Running, true); cm.Immutable != nil {
				t.Error("more than the label of the snapshot was changed: it is immutable now")
			}
			f.wantUntouched(t, trainerv23.Running)
			env.PatchJob(t, f.namespace, trainerv23.Running, harness.Suspend)
			awaitPods(t, f.namespace, trainerv23.Running, 0)
			f.resumeElsewhere(t, trainerv23.Running, 2)
			letGo(t, f.namespace, trainerv23.Running)
			env.AwaitState(t, f.namespace, trainerv23.Running, trainer.TrainJobComplete, "AllJobsCompleted", harness.Soon)
		},
		"a running MPI job": func(t *testing.T) {
			f.wantSnapshot(t, trainerv23.MPIRunning, true)
			f.wantUntouched(t, trainerv23.MPIRunning)
		},
		"a job that has never run, with a JobSet and Kueue's patch": func(t *testing.T) {
			f.wantSnapshot(t, trainerv23.Queued, true)
			f.wantStamped(t, trainerv23.Queued)
			f.resumeElsewhere(t, trainerv23.Queued, 2)
		},
		"a job that ran and is suspended": func(t *testing.T) {
			f.wantSnapshot(t, trainerv23.Paused, true)
			f.wantStamped(t, trainerv23.Paused)
			env.PatchJob(t, f.namespace, trainerv23.Paused, harness.Resume)
			awaitPods(t, f.namespace, trainerv23.Paused, 2)
		},
		"a suspended MPI job goes on with its old key and hostfile": func(t *testing.T) {
			f.wantSnapshot(t, trainerv23.MPIQueued, true)
			f.wantStamped(t, trainerv23.MPIQueued)
			env.PatchJob(t, f.namespace, trainerv23.MPIQueued, harness.Resume)
			for _, pod := range awaitPods(t, f.namespace, trainerv23.MPIQueued, 3) {
				f.wantMounted(t, pod)
			}
		},
		"a running job of a release without snapshots": func(t *testing.T) {
			f.wantSnapshot(t, earlierRunning, false)
			f.wantUntouched(t, earlierRunning)
		},
		"a suspended job of a release without snapshots": func(t *testing.T) {
			f.wantSnapshot(t, earlierPaused, false)
			f.wantStamped(t, earlierPaused)
			f.resumeElsewhere(t, earlierPaused, 2)
		},
		"a job that should run and has nothing": func(t *testing.T) {
			f.wantSnapshot(t, bareRunning, false)
			awaitPods(t, f.namespace, bareRunning, 2)
		},
		"a suspended job that has nothing": func(t *testing.T) {
			f.wantSnapshot(t, bareQueued, false)
			env.AwaitState(t, f.namespace, bareQueued, trainer.TrainJobSuspended, "", harness.Soon)
			if js := env.JobSetOf(t, f.namespace, bareQueued); js != nil {
				t.Error("a job that is suspended and has no JobSet got one")
			}
			f.resumeElsewhere(t, bareQueued, 2)
		},
	}
	t.Run("as it should go on", func(t *testing.T) {
		for name, step := range steps {
			t.Run(name, func(t *testing.T) { t.Parallel(); step(t) })
		}
	})
	f.wantNoTrouble(t)
}

// wantMounted checks that the Secrets and ConfigMaps which a pod mounts are there.
func (f found) wantMounted(t *testing.T, pod corev1.Pod) {
	t.Helper()
	for _, volume := range pod.Spec.Volumes {
		var err error
		switch {
		case volume.Secret != nil:
			_, err = env.Core.CoreV1().Secrets(f.namespace).Get(t.Context(), volume.Secret.SecretName, metav1.GetOptions{})
		case volume.ConfigMap != nil && f.uids["ConfigMap "+volume.ConfigMap.Name] == "":
			err = fmt.Errorf("ConfigMap %s was not there before", volume.ConfigMap.Name)
		}
		if err != nil {
			t.Errorf("volume %s of pod %s: %v", volume.Name, pod.Name, err)
		}
	}
}

// wantNoTrouble checks that nothing was refused, but for helpers that exist already, that
// no user was warned, and that the controller, started again, has nothing left to do.
func (f found) wantNoTrouble(t *testing.T) {
	t.Helper()
	for _, e := range env.Writes(t, f.since, f.namespace) {
		exists := e.Verb == "create" && e.Code == 409 && (e.Resource == "configmaps" || e.Resource == "secrets")
		if e.Code >= 400 && !exists && e.Code != 409 {
			t.Errorf("%s %s %s was refused: %d", e.Verb, e.Resource, e.Name, e.Code)
		}
	}
	events, err := env.Core.CoreV1().Events(f.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=TrainJob,type=Warning"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		t.Errorf("a warning about %s: %s %s", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	awaitQuiet(t, f.namespace)
	env.WithoutController(t)
	before := env.AuditNow(t)
	env.WithController(t)
	harness.Consistently(t, 3*time.Second, func() string {
		if writes := harness.Summary(env.Writes(t, before, f.namespace)); len(writes) > 0 {
			return fmt.Sprintf("the controller, started again, still had to write %v", writes)
		}
		return ""
	})
}

// awaitQuiet waits until nothing has been written in a namespace for two seconds.
func awaitQuiet(t *testing.T, namespace string) {
	t.Helper()
	position, last := env.AuditNow(t), time.Now()
	harness.Eventually(t, time.Minute, func() string {
		if len(env.Writes(t, position, namespace)) > 0 {
			position, last = env.AuditNow(t), time.Now()
		}
		if time.Since(last) < 2*time.Second {
			return "the controller is still busy"
		}
		return ""
	})
}

func TestFinishedJobsAreNotWrittenTo(t *testing.T) {
	namespace := leftBehind(t)
	leave(t, namespace, trainerv23.Finished, trainerv23.Options{})
	leave(t, namespace, trainerv23.Finished, trainerv23.Options{Name: "without-children", Without: []string{"ConfigMap", "JobSet"}})
	leave(t, namespace, trainerv23.Finished, trainerv23.Options{Name: "failed", Without: []string{"JobSet"}, Change: failed("Failed", "FailedJobs")})
	leave(t, namespace, trainerv23.Finished, trainerv23.Options{Name: "unsupported", Without: []string{"ConfigMap", "JobSet"}, Change: failed("Failed", "TrainingRuntimeNotSupported")})
	before := map[string]*trainer.TrainJob{}
	for _, name := range []string{trainerv23.Finished, "without-children", "failed", "unsupported"} {
		before[name] = env.Job(t, namespace, name)
	}
	since := env.AuditNow(t)
	env.WithController(t)
	// The JobSet of the first, which was created anew for this test, runs and completes
	// once more: its changes are seen and mean nothing.
	harness.Eventually(t, 2*harness.Soon, func() string {
		if js := env.JobSetOf(t, namespace, trainerv23.Finished); js.Status.TerminalState == "" {
			return "the JobSet has not completed"
		}
		return ""
	})
	for name := range before {
		env.PatchJob(t, namespace, name, harness.Suspend)
		env.PatchJob(t, namespace, name, harness.Resume)
	}
	harness.Consistently(t, 3*time.Second, func() string {
		if writes := harness.Summary(env.Writes(t, since, namespace)); len(writes) > 0 {
			return fmt.Sprintf("writes to finished jobs: %v", writes)
		}
		return ""
	})
	for name, job := range before {
		if diff := cmp.Diff(job.Status, env.Job(t, namespace, name).Status); diff != "" {
			t.Errorf("status of %s (-before +after):\n%s", name, diff)
		}
	}
}

// failed makes the terminal condition of a finished job another one.
func failed(conditionType, reason string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if object.GetKind() != "TrainJob" {
			return
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		condition := conditions[0].(map[string]any)
		condition["type"], condition["reason"] = conditionType, reason
		_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions")
	}
}

// Trainer deletes the JobSet of an overdue job once, and does not look whether that
// worked: its pods would run for ever.
func TestTheJobSetThatAnOverdueJobHasLeftIsDeleted(t *testing.T) {
	namespace := leftBehind(t)
	leave(t, namespace, trainerv23.Finished, trainerv23.Options{Change: failed("Failed", trainer.ReasonDeadlineExceeded)})
	before := env.Job(t, namespace, trainerv23.Finished)
	env.WithController(t)
	harness.Eventually(t, harness.Soon, func() string {
		if env.JobSetOf(t, namespace, trainerv23.Finished) != nil {
			return "the JobSet is still there"
		}
		return ""
	})
	if diff := cmp.Diff(before.Status, env.Job(t, namespace, trainerv23.Finished).Status); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

func TestSnapshotsAreAdoptedThoughTheirRuntimeIsGone(t *testing.T) {
	labelNodes(t)
	f := found{namespace: leftBehind(t)}
	gone := func(object *unstructured.Unstructured) {
		if object.GetKind() == "TrainJob" {
			_ = unstructured.SetNestedField(object.Object, "gone", "spec", "runtimeRef", "name")
		}
	}
	leave(t, f.namespace, trainerv23.Running, trainerv23.Options{Change: gone})
	leave(t, f.namespace, trainerv23.Queued, trainerv23.Options{Change: gone})
	leave(t, f.namespace, trainerv23.Queued, trainerv23.Options{Name: bareQueued, Change: gone, Without: []string{"JobSet"}})
	f.pods = map[string][]string{trainerv23.Running: uids(awaitPods(t, f.namespace, trainerv23.Running, 2))}
	awaitHeldBack(t, f.namespace, trainerv23.Queued)
	f.uids, f.since = f.now(t), env.AuditNow(t)
	env.WithController(t)
	f.wantSnapshot(t, trainerv23.Running, true)
	f.wantUntouched(t, trainerv23.Running)
	for _, job := range []string{trainerv23.Queued, bareQueued} {
		f.wantSnapshot(t, job, true)
		f.resumeElsewhere(t, job, 2)
	}
	f.wantNoTrouble(t)
}

// What an older controller knew as a deadline is kept: it is enforced by the rules of
// this one.
func TestTheDeadlineOfAJobTakenOverIsEnforced(t *testing.T) {
	namespace := leftBehind(t)
	leave(t, namespace, trainerv23.Running, trainerv23.Options{Change: func(object *unstructured.Unstructured) {
		if object.GetKind() == "TrainJob" {
			_ = unstructured.SetNestedField(object.Object, int64(20), "spec", "activeDeadlineSeconds")
		}
	}})
	awaitPods(t, namespace, trainerv23.Running, 2)
	env.WithController(t)
	job := env.AwaitState(t, namespace, trainerv23.Running, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 2*harness.Soon)
	if took := job.Status.CompletionTime.Sub(job.CreationTimestamp.Time); took < 20*time.Second {
		t.Errorf("failed after %v, want the deadline to be 20s after creation", took)
	}
	if got := ptr.Deref(job.Status.Lifecycle.ActiveDeadlineSeconds, 0); got != 20 {
		t.Errorf("the deadline recorded is %d, want 20", got)
	}
}
