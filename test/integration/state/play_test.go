package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned/typed/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	trainerclient "github.com/trainjob/controller/generated/clientset/versioned/typed/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/runtimesnapshot"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

const (
	// soon is enough for anything the controller does without being made to wait, on a
	// machine that has other things to do as well.
	soon = 20 * time.Second
	// awake is how soon an event must have had its effect.
	awake = 2 * time.Second
	// finalizer holds an object until the test lets it go.
	finalizer = "example.com/held-by-test"
)

// setUp makes a namespace with the runtime that newJob refers to.
func setUp(t *testing.T) string {
	t.Helper()
	ns := env.Namespace(t)
	createRuntime(t, ns, "torch", builders.TorchSpec())
	return ns
}

func createRuntime(t *testing.T, ns, name string, spec trainer.TrainingRuntimeSpec) {
	t.Helper()
	runtime := builders.TrainingRuntime(name, spec)
	runtime.Namespace = ns
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(ns).Create(t.Context(), runtime, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create TrainingRuntime %s: %v", name, err)
	}
}

// editRuntime changes the runtime of a namespace.
func editRuntime(t *testing.T, ns, name string, edit func(*trainer.TrainingRuntimeSpec)) {
	t.Helper()
	client := env.Trainer.TrainerV1alpha1().TrainingRuntimes(ns)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		runtime, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(&runtime.Spec)
		_, err = client.Update(t.Context(), runtime, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("edit TrainingRuntime %s: %v", name, err)
	}
}

// newJob makes, without creating it, a job of the namespace's runtime.
func newJob(ns, name string, opts ...builders.JobOption) *trainer.TrainJob {
	opts = append([]builders.JobOption{
		builders.Runtime(trainer.TrainingRuntimeKind, "torch"),
		func(job *trainer.TrainJob) { job.Namespace = ns },
	}, opts...)
	return builders.TrainJob(name, opts...)
}

func trainJobs(ns string) trainerclient.TrainJobInterface {
	return env.Trainer.TrainerV1alpha1().TrainJobs(ns)
}

func jobSets(ns string) jobsetclient.JobSetInterface {
	return env.JobSet.JobsetV1alpha2().JobSets(ns)
}

// patchJob applies a merge patch to a TrainJob.
func patchJob(t *testing.T, ns, name, patch string) {
	t.Helper()
	if _, err := trainJobs(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch TrainJob %s: %v", name, err)
	}
}

func setSuspend(t *testing.T, ns, name string, suspend bool) {
	t.Helper()
	patchJob(t, ns, name, fmt.Sprintf(`{"spec":{"suspend":%t}}`, suspend))
}

// patchJobSet applies a merge patch to a JobSet.
func patchJobSet(t *testing.T, ns, name, patch string) {
	t.Helper()
	if _, err := jobSets(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch JobSet %s: %v", name, err)
	}
}

const (
	hold    = `{"metadata":{"finalizers":["` + finalizer + `"]}}`
	letGo   = `{"metadata":{"finalizers":null}}`
	anEdit  = `{"metadata":{"labels":{"edited":"yes"}}}`
	nothing = ""
)

// deleteJobSet deletes a JobSet as a user would.
func deleteJobSet(t *testing.T, ns, name string) {
	t.Helper()
	if err := jobSets(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete JobSet %s: %v", name, err)
	}
}

// deleteJob deletes a TrainJob and takes what it owns with it in the given way.
func deleteJob(t *testing.T, ns, name string, propagation metav1.DeletionPropagation) {
	t.Helper()
	if err := trainJobs(ns).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		t.Fatalf("delete TrainJob %s: %v", name, err)
	}
}

// awaitJobSet waits until there is a JobSet of the job's, and that is not the one with
// the UID `not`.
func awaitJobSet(t *testing.T, ns, name string, not types.UID, timeout time.Duration) *jobset.JobSet {
	t.Helper()
	var found *jobset.JobSet
	harness.Eventually(t, timeout, func() string {
		js, err := jobSets(ns).Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case js.UID == not:
			return "the old JobSet is still there"
		case metav1.GetControllerOf(js) == nil || metav1.GetControllerOf(js).UID != env.Job(t, ns, name).UID:
			return "the JobSet belongs to somebody else"
		}
		found = js
		return nothing
	})
	return found
}

// awaitNoJobSet waits until the JobSet is gone.
func awaitNoJobSet(t *testing.T, ns, name string, timeout time.Duration) {
	t.Helper()
	harness.Eventually(t, timeout, func() string {
		if _, err := jobSets(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("JobSet %s is still there (%v)", name, err)
		}
		return nothing
	})
}

// awaitNoJob waits until the TrainJob is gone.
func awaitNoJob(t *testing.T, ns, name string, timeout time.Duration) {
	t.Helper()
	harness.Eventually(t, timeout, func() string {
		if _, err := trainJobs(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("TrainJob %s is still there (%v)", name, err)
		}
		return nothing
	})
}

// awaitSnapshot waits until the job has its snapshot, and that is not the one with the
// UID `not`.
func awaitSnapshot(t *testing.T, ns, name string, not types.UID, timeout time.Duration) *corev1.ConfigMap {
	t.Helper()
	var found *corev1.ConfigMap
	harness.Eventually(t, timeout, func() string {
		cm, err := env.Core.CoreV1().ConfigMaps(ns).Get(t.Context(), runtimesnapshot.Name(name), metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case cm.UID == not:
			return "the old ConfigMap is still there"
		}
		found = cm
		return nothing
	})
	return found
}

// playJobSet writes the status of a JobSet, as its controller would.
func playJobSet(t *testing.T, ns, name string, changes ...builders.JobSetOption) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		js, err := jobSets(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, change := range changes {
			change(js)
		}
		_, err = jobSets(ns).UpdateStatus(t.Context(), js, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("write the status of JobSet %s: %v", name, err)
	}
}

func playRunning(t *testing.T, ns, name string) {
	t.Helper()
	playJobSet(t, ns, name, builders.Jobs(builders.Ready("node")))
}

func playCompleted(t *testing.T, ns, name string) {
	t.Helper()
	playJobSet(t, ns, name, builders.Jobs(builders.Succeeded("node")),
		builders.Ended(jobset.JobSetCompleted, "AllJobsCompleted", "jobset completed successfully"))
}

// running creates a job and brings it to Running.
func running(t *testing.T, ns, name string, opts ...builders.JobOption) *trainer.TrainJob {
	t.Helper()
	env.Create(t, newJob(ns, name, opts...))
	awaitJobSet(t, ns, name, "", soon)
	playRunning(t, ns, name)
	return env.AwaitState(t, ns, name, trainer.TrainJobRunning, trainer.ReasonPodsReady, soon)
}

// completed creates a job and brings it to Complete.
func completed(t *testing.T, ns, name string, opts ...builders.JobOption) *trainer.TrainJob {
	t.Helper()
	running(t, ns, name, opts...)
	playCompleted(t, ns, name)
	return env.AwaitState(t, ns, name, trainer.TrainJobComplete, "AllJobsCompleted", soon)
}

// requests are the controller's requests in a namespace since a position.
func requests(t *testing.T, since cluster.AuditPosition, ns string, filter cluster.AuditFilter) []cluster.AuditEvent {
	t.Helper()
	filter.UserAgentPrefix, filter.Namespace = harness.ControllerAgent, ns
	return env.Audit(t, since, filter)
}

// wantNoCreates fails the test if the controller has tried to create anything but
// events in the namespace.
func wantNoCreates(t *testing.T, since cluster.AuditPosition, ns string) {
	t.Helper()
	creates := requests(t, since, ns, cluster.AuditFilter{Verbs: []string{"create"}, Match: notOfEvents})
	if len(creates) > 0 {
		t.Errorf("nothing was to be created, but the controller tried:\n%s", listed(creates))
	}
}

func listed(events []cluster.AuditEvent) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %s/%s %s %d", e.Received.Format(time.RFC3339Nano), e.Verb, e.Resource, e.Name, e.RequestURI, e.Code))
	}
	return strings.Join(lines, "\n")
}

// terminalConditions are the types of the terminal conditions that are True.
func terminalConditions(job *trainer.TrainJob) []string {
	var found []string
	for _, c := range job.Status.Conditions {
		if c.Status == metav1.ConditionTrue &&
			(c.Type == string(trainer.TrainJobComplete) || c.Type == string(trainer.TrainJobFailed)) {
			found = append(found, c.Type)
		}
	}
	return found
}

// condition of a job, which the test fails without.
func condition(t *testing.T, job *trainer.TrainJob, state trainer.TrainJobState) metav1.Condition {
	t.Helper()
	for _, c := range job.Status.Conditions {
		if c.Type == string(state) {
			return c
		}
	}
	t.Fatalf("TrainJob %s has no condition %s: %v", job.Name, state, job.Status.Conditions)
	return metav1.Condition{}
}

// auditCreatesOf selects the attempts to create objects of a resource.
func auditCreatesOf(resource string) cluster.AuditFilter {
	return cluster.AuditFilter{Verbs: []string{"create"}, Resource: resource}
}

// notOfEvents leaves out events, which are sent a while after what they speak of when
// there are many.
func notOfEvents(e cluster.AuditEvent) bool { return e.Resource != "events" }

// awaitQuiet waits until the controller has neither asked nor written anything about a
// namespace, but for events, for a second.
func awaitQuiet(t *testing.T, ns string) {
	t.Helper()
	position, last := env.AuditNow(t), time.Now()
	harness.Eventually(t, soon, func() string {
		if len(requests(t, position, ns, cluster.AuditFilter{Match: notOfEvents})) > 0 {
			position, last = env.AuditNow(t), time.Now()
		}
		if time.Since(last) < time.Second {
			return "the controller is still busy"
		}
		return nothing
	})
}

// paced does something again and again, at a pace, for a time.
func paced(t *testing.T, every, during time.Duration, do func(i int)) {
	t.Helper()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	end := time.After(during)
	for i := 0; ; i++ {
		select {
		case <-ticker.C:
			do(i)
		case <-end:
			return
		}
	}
}
