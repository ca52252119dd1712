package opaque

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var lateRuntimes = schema.GroupVersionResource{Group: "late.example.com", Version: "v1", Resource: "lateruntimes"}

// None of the tests in this file is parallel: they stop what the others need, or count
// what belongs to no namespace.

// ready makes jobs in every state that has to do with a builder.
func ready(t *testing.T) (namespace string) {
	t.Helper()
	namespace = withBuilder(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	name := "of-" + namespace
	publish(t, runtimes("clusterslurmruntimes", ""), fmt.Sprintf("{apiVersion: slurm.example.com/v1, kind: ClusterSlurmRuntime, metadata: {name: %s}}", name))
	deleteLater(t, name)
	for job, opts := range map[string][]builders.JobOption{
		"running": {builders.Deadline(3600)}, "done": {builders.TTL(3600)}, "queued": nil, "held": {builders.Suspended(true)},
	} {
		env.Create(t, newJob(namespace, job, "SlurmRuntime", opts...))
	}
	env.Create(t, newJob(namespace, "unbuilt", "ClusterSlurmRuntime", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.Name = name }))
	play(t, namespace, "running", corev1.PodRunning, 2)
	play(t, namespace, "done", corev1.PodSucceeded, 2)
	env.AwaitState(t, namespace, "running", trainer.TrainJobRunning, "BatchRunning", harness.Soon)
	env.AwaitState(t, namespace, "done", trainer.TrainJobComplete, "BatchCompleted", harness.Soon)
	env.AwaitState(t, namespace, "queued", trainer.TrainJobPending, "BatchQueued", harness.Soon)
	env.AwaitState(t, namespace, "unbuilt", trainer.TrainJobPending, trainer.ReasonExternalRuntime, harness.Soon)
	env.AwaitState(t, namespace, "held", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
	harness.Eventually(t, harness.Soon, func() string {
		if env.Job(t, namespace, "held").Status.RuntimeSnapshot == nil {
			return "the snapshot of the suspended job is not recorded"
		}
		return ""
	})
	return namespace
}

func TestARestartedControllerWritesNothing(t *testing.T) {
	namespace := ready(t)
	env.Create(t, newJob(namespace, "waits", "SlurmRuntime", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.Name = "missing" }))
	env.AwaitState(t, namespace, "waits", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
	stop(t)
	before := env.AuditNow(t)
	if err := env.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, harness.Soon, func() string {
		reads := env.Audit(t, before, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Group: group, Namespace: namespace})
		if len(reads) == 0 {
			return "the new process has not looked at the job that waits"
		}
		return ""
	})
	harness.Consistently(t, 3*time.Second, func() string { return "" })
	if writes := env.Writes(t, before, namespace); len(writes) > 0 {
		t.Errorf("the new process has written: %v", harness.Summary(writes))
	}
	for _, read := range env.Audit(t, before, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Group: group, Namespace: namespace}) {
		if read.Name != "missing" {
			t.Errorf("the runtime of a job with a snapshot was read: %s %s", read.Verb, read.RequestURI)
		}
	}
}

func TestAKindTakenOffTheListChangesNothingForJobsWithASnapshot(t *testing.T) {
	namespace := ready(t)
	env.Create(t, newJob(namespace, "waits", "SlurmRuntime", func(job *trainer.TrainJob) { job.Spec.RuntimeRef.Name = "missing" }))
	env.AwaitState(t, namespace, "waits", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
	before := env.AuditNow(t)
	restart(t)
	// What has no snapshot is not supported any more.
	env.AwaitState(t, namespace, "waits", trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, harness.Soon)
	env.Create(t, newJob(namespace, "new", "SlurmRuntime"))
	env.AwaitState(t, namespace, "new", trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, harness.Soon)
	// What has one goes on, and is even handed over.
	env.PatchJob(t, namespace, "held", harness.Resume)
	env.AwaitState(t, namespace, "held", trainer.TrainJobPending, "BatchQueued", harness.Soon)
	play(t, namespace, "running", corev1.PodSucceeded, 2)
	env.AwaitState(t, namespace, "running", trainer.TrainJobComplete, "BatchCompleted", harness.Soon)
	for _, name := range []string{"queued", "unbuilt", "done"} {
		if writes := env.Audit(t, before, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Writes: true, Namespace: namespace, Name: name}); len(writes) > 0 {
			t.Errorf("job %s was written to: %v", name, harness.Summary(writes))
		}
	}
	// Without its snapshot nothing can be made of it, but it is not failed either.
	if err := env.Core.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "queued-runtime-snapshot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Consistently(t, 3*time.Second, func() string {
		if state := env.Job(t, namespace, "queued").Status.State; state != trainer.TrainJobPending {
			return fmt.Sprintf("job queued is %s", state)
		}
		return ""
	})
}

func TestAKindThatIsNotListedFailsTheJobAndNoOther(t *testing.T) {
	namespace := withBuilder(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	before := env.AuditNow(t)
	job := newJob(namespace, "ray", "RayCluster")
	env.Create(t, job)
	env.Create(t, newJob(namespace, "small", "slurmruntime"))
	env.Create(t, newJob(namespace, "a", "SlurmRuntime"))
	for _, name := range []string{"ray", "small"} {
		failed := env.AwaitState(t, namespace, name, trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, harness.Soon)
		if !strings.Contains(failed.Status.Message, "--opaque-runtime-kinds") {
			t.Errorf("the message does not name the flag: %s", failed.Status.Message)
		}
	}
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, "BatchQueued", harness.Soon)
	if reads := env.Audit(t, before, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Verbs: []string{"get"}, Group: group, Namespace: namespace}); len(reads) != 1 {
		t.Errorf("runtimes were read %d times for one job whose kind is listed", len(reads))
	}
}

// discoveries are the controller's reads of what the API server serves.
func discoveries(t *testing.T, since cluster.AuditPosition) []cluster.AuditEvent {
	t.Helper()
	return env.Audit(t, since, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Match: func(e cluster.AuditEvent) bool {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return path == "/apis" || path == "/api" || path == "/apis/"+group || path == "/apis/gone.example.com"
	}})
}

func TestAMissingKindIsAskedForOnceForAllJobs(t *testing.T) {
	namespace := env.Namespace(t)
	start := env.AuditNow(t)
	began := time.Now()
	const jobs = 40
	gone := func(job *trainer.TrainJob) { *job.Spec.RuntimeRef.APIGroup = "gone.example.com" }
	for i := range jobs {
		env.Create(t, newJob(namespace, fmt.Sprintf("a-%d", i), "GoneRuntime", gone))
		env.PatchJob(t, namespace, fmt.Sprintf("a-%d", i), `{"metadata":{"labels":{"woken":"yes"}}}`)
	}
	for i := range jobs {
		pending := env.AwaitState(t, namespace, fmt.Sprintf("a-%d", i), trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
		if !strings.Contains(pending.Status.Message, "does not serve that kind") {
			t.Errorf("message %q", pending.Status.Message)
		}
	}
	harness.Consistently(t, 25*time.Second, func() string { return "" })
	// Each time costs two requests, for /api and /apis; the time between is 5 seconds at
	// first and doubles.
	asked := discoveries(t, start)
	if most := 2 * (2 + int(time.Since(began)/(10*time.Second))); len(asked) == 0 || len(asked) > most {
		t.Errorf("discovery was read in %d requests within %v, want some, and %d at most", len(asked), time.Since(began), most)
	}
	if reads := env.Audit(t, start, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Group: "gone.example.com"}); len(reads) > 0 {
		t.Errorf("objects of a kind that does not exist were asked for: %v", harness.Summary(reads))
	}
	if diff := harness.Summary(env.Writes(t, start, namespace))["patch trainjobs/status"]; diff != jobs {
		t.Errorf("%d status writes for %d jobs, want one each", diff, jobs)
	}
}

func TestAMissingRuntimeIsReadLessAndLess(t *testing.T) {
	namespace := env.Namespace(t)
	start := env.AuditNow(t)
	began := time.Now()
	env.Create(t, newJob(namespace, "a", "SlurmRuntime"))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
	for i := 0; time.Since(began) < 20*time.Second; i++ { // whatever wakes it
		env.PatchJob(t, namespace, "a", fmt.Sprintf(`{"metadata":{"labels":{"woken":"%d"}}}`, i))
		harness.Consistently(t, 500*time.Millisecond, func() string { return "" })
	}
	reads := env.Audit(t, start, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Group: group, Namespace: namespace})
	if len(reads) < 3 || len(reads) > 4 {
		t.Errorf("the runtime was read %d times in %v, want 3 times, after 0, 5 and 15 seconds", len(reads), time.Since(began))
	}
	for i := 1; i < len(reads); i++ {
		// The controller counts from when it sent the first, the API server from when each came.
		const onTheWay = 500 * time.Millisecond
		if between := reads[i].Received.Sub(reads[i-1].Received); between < 5*time.Second-onTheWay {
			t.Errorf("two reads were %v apart", between)
		}
	}
}

// The controller has no more rights here than artifacts/rbac gives it.
func TestARightThatIsMissingIsNamedAndUsedOnceItIsGiven(t *testing.T) {
	namespace := env.Namespace(t)
	publish(t, runtimes("slurmruntimes", namespace), slurmRuntime)
	readers := filepath.Join("testdata", "readers.yaml")
	if err := env.Core.RbacV1().ClusterRoleBindings().Delete(t.Context(), "readers-of-opaque-runtimes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's own context has ended by then
		if err := env.Cluster.Apply(context.Background(), readers); err != nil {
			t.Error(err)
		}
	})
	harness.Eventually(t, harness.Soon, func() string {
		review, err := env.Core.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               harness.ControllerUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: group, Resource: "slurmruntimes"},
			},
		}, metav1.CreateOptions{})
		switch {
		case err != nil:
			return err.Error()
		case review.Status.Allowed:
			return "the controller still may read runtimes"
		}
		return ""
	})
	env.Create(t, newJob(namespace, "a", "SlurmRuntime", builders.Suspended(true)))
	held := env.AwaitState(t, namespace, "a", trainer.TrainJobSuspended, "", harness.Soon)
	message := held.Status.Message
	for _, part := range []string{"lacks the right to get slurmruntimes.slurm.example.com", `trainer.kubeflow.org/aggregate-to-trainjob-controller: "true"`} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q does not say %q", message, part)
		}
	}
	if err := env.Cluster.Apply(t.Context(), filepath.Join("testdata", "slurm-rights.yaml")); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, func() string {
		if env.Job(t, namespace, "a").Status.RuntimeSnapshot == nil {
			return "the runtime has not been read since the right was given"
		}
		return ""
	})
}

func TestAKindThatIsInstalledLateIsNoticed(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	late := func(job *trainer.TrainJob) { *job.Spec.RuntimeRef.APIGroup = "late.example.com" }
	env.Create(t, newJob(namespace, "a", "LateRuntime", late))
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
	if err := env.Cluster.InstallCRDs(t.Context(), filepath.Join("testdata", "late.yaml")); err != nil {
		t.Fatal(err)
	}
	client := env.Dynamic.Resource(lateRuntimes).Namespace(namespace)
	publish(t, client, "{apiVersion: late.example.com/v1, kind: LateRuntime, metadata: {name: big}, anything: [goes]}")
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonExternalRuntime, patience)
}
