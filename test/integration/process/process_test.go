package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// electionFlags make replicas that take over from each other quickly. They compete for
// the only lease that the controller's ServiceAccount may touch, which is free when the
// test begins.
func electionFlags(t *testing.T) []string {
	t.Helper()
	err := env.Core.CoordinationV1().Leases(harness.SystemNamespace).Delete(t.Context(), leaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return []string{
		"--leader-elect=true",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms",
	}
}

const leaseName = "trainjob-controller"

// replica starts one more controller beside the package's own, which the test must
// have stopped.
func replica(t *testing.T, name string, flags ...string) *harness.Controller {
	t.Helper()
	c, err := harness.StartController(t.Context(), env.Binary, env.ControllerKubeconfig(), filepath.Join(t.TempDir(), name+".log"), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Kill() })
	return c
}

// alone stops the package's controller for the time of a test.
func alone(t *testing.T) {
	t.Helper()
	if err := env.StopController(); err != nil {
		t.Fatalf("a controller that is told to stop must end with exit code 0: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := env.StartController(context.Background()); err != nil {
			t.Errorf("start the controller again: %v", err)
		}
	})
}

func holder(t *testing.T) string {
	t.Helper()
	lease, err := env.Core.CoordinationV1().Leases(harness.SystemNamespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// awaitLeader waits until somebody holds the lease.
func awaitLeader(t *testing.T) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		if holder(t) == "" {
			return "nobody holds the lease"
		}
		return ""
	})
}

func createRuntime(t *testing.T, namespace string) {
	t.Helper()
	runtime := builders.TrainingRuntime("plain", builders.PlainSpec())
	runtime.Namespace = namespace
	if _, err := env.Trainer.TrainerV1alpha1().TrainingRuntimes(namespace).Create(t.Context(), runtime, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newJob(namespace, name string) *trainer.TrainJob {
	return &trainer.TrainJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       trainer.TrainJobSpec{RuntimeRef: trainer.RuntimeRef{Name: "plain", Kind: ptrTo(trainer.TrainingRuntimeKind)}},
	}
}

func ptrTo[T any](v T) *T { return &v }

func TestEndpointsAnswer(t *testing.T) {
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok",
		"/metrics": "trainjob_controller_",
	} {
		body, err := env.Controller.Get(t.Context(), path)
		if err != nil || !strings.Contains(body, want) {
			t.Errorf("%s: %v; %q is not in it", path, err, want)
		}
	}
}

func TestASecondReplicaTakesOverFromOneThatStops(t *testing.T) {
	alone(t)
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	flags := electionFlags(t)
	first := replica(t, "first", flags...)
	awaitLeader(t)
	leader := holder(t)
	second := replica(t, "second", flags...)
	env.Create(t, newJob(namespace, "before"))
	env.AwaitState(t, namespace, "before", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)

	if err := first.Stop(); err != nil {
		t.Errorf("a leader that is told to stop must end with exit code 0: %v", err)
	}
	if now := holder(t); now == leader {
		t.Errorf("the lease is still held by the replica that has stopped")
	}
	env.Create(t, newJob(namespace, "after"))
	// Sooner than the lease would have run out: it was given back.
	env.AwaitState(t, namespace, "after", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}

func TestASecondReplicaTakesOverFromOneThatIsKilled(t *testing.T) {
	alone(t)
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	flags := electionFlags(t)
	first := replica(t, "first", flags...)
	awaitLeader(t)
	second := replica(t, "second", flags...)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	env.Create(t, newJob(namespace, "after"))
	env.AwaitState(t, namespace, "after", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}

func TestALeaderThatCannotRenewItsLeaseEndsWithAnError(t *testing.T) {
	alone(t)
	c := replica(t, "leader", electionFlags(t)...)
	awaitLeader(t)
	// A process that sleeps longer than its lease lasts has lost it.
	if err := syscall.Kill(c.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 15*time.Second, func() string { return takeLease(t) })
	if err := syscall.Kill(c.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Exited():
	case <-time.After(15 * time.Second):
		t.Fatal("the old leader goes on")
	}
	if err := c.Stop(); err == nil {
		t.Error("the old leader ended with exit code 0, want another")
	}
}

// takeLease takes the lease over as another replica would once it has run out.
func takeLease(t *testing.T) string {
	t.Helper()
	leases := env.Core.CoordinationV1().Leases(harness.SystemNamespace)
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if time.Since(lease.Spec.RenewTime.Time) < time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second {
		return "the lease has not run out"
	}
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptrTo("another"), &now, ptrTo[int32](3600)
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

func TestWrongFlagsAreAllNamedAndNothingStarts(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), env.Binary, "--kubeconfig", env.ControllerKubeconfig(),
		"--kube-api-qps=0", "--bind-address=nonsense", "--no-such-flag", "--kube-api-burst=many", "--concurrent-jobset-syncs=0")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("exit code 0, want another")
	}
	for _, flag := range []string{"--kube-api-qps", "--bind-address", "--concurrent-jobset-syncs", "--no-such-flag", "--kube-api-burst"} {
		if !bytes.Contains(out, []byte(flag)) {
			t.Errorf("%s is not named in:\n%s", flag, out)
		}
	}
}

// As an admin, who runs it from a laptop: the ServiceAccount may not ask for namespaces,
// and its pod's is there.
func TestANamespaceForTheLeaseThatIsMissingIsAnErrorWithItsRemedy(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), env.Binary, "--kubeconfig", env.Cluster.Kubeconfig(), "--bind-address=0",
		"--webhook=false", "--leader-elect-resource-namespace=missing")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("--leader-elect=false")) {
		t.Errorf("exit %v, want an error that says what to do:\n%s", err, out)
	}
}

// API servers that do not stream lists are asked for them in the old way.
func TestWatchesWorkWithPlainLists(t *testing.T) {
	alone(t)
	start := env.AuditNow(t)
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	replica(t, "lists", "--leader-elect=false")
	lists := harness.Summary(env.Audit(t, start, cluster.AuditFilter{User: harness.ControllerUser, Verbs: []string{"list"}}))
	for _, resource := range []string{"trainjobs", "trainingruntimes", "clustertrainingruntimes", "jobsets", "configmaps"} {
		if lists["list "+resource] == 0 {
			t.Errorf("%s were not listed, only %v", resource, lists)
		}
	}
}

func TestJSONLogsAreJSON(t *testing.T) {
	alone(t)
	logFile := filepath.Join(t.TempDir(), "json.log")
	c, err := harness.StartController(t.Context(), env.Binary, env.ControllerKubeconfig(), logFile, "--logging-format=json", "-v=2")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(string(log))) {
		// A binary with the race detector says so before it has read its flags.
		if !strings.Contains(line, "Data race detection enabled") && !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), env.Binary, "--version").Output()
	if err != nil || !bytes.HasPrefix(out, []byte("trainjob-controller version ")) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRepeatedWarningsBecomeOneEventThatCounts(t *testing.T) {
	namespace := env.Namespace(t)
	var last *trainer.TrainJob
	for i := range 5 {
		// The same runtime is missing, appears and goes: the same warning each time.
		job := newJob(namespace, "waits")
		if last == nil {
			last = env.Create(t, job)
		}
		env.AwaitState(t, namespace, "waits", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, harness.Soon)
		if i == 4 {
			break
		}
		suspend(t, namespace, "waits", true)
		env.AwaitState(t, namespace, "waits", trainer.TrainJobSuspended, "", harness.Soon)
		suspend(t, namespace, "waits", false)
	}
	harness.Eventually(t, 2*harness.Soon, func() string {
		events, err := env.Core.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var found []corev1.Event
		for _, e := range events.Items {
			if e.Reason == trainer.ReasonWaitingForRuntime {
				found = append(found, e)
			}
		}
		if len(found) != 1 || found[0].Count != 5 {
			return fmt.Sprintf("want one event with count 5, got %+v", found)
		}
		return ""
	})
}

func suspend(t *testing.T, namespace, name string, suspended bool) {
	t.Helper()
	job := env.Job(t, namespace, name)
	job.Spec.Suspend = &suspended
	if _, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestWritesCarryOurUserAgent(t *testing.T) {
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	env.Create(t, newJob(namespace, "job"))
	env.AwaitState(t, namespace, "job", trainer.TrainJobPending, trainer.ReasonWaitingForPods, harness.Soon)
	events, err := env.Cluster.AuditEvents(t.Context(), 0, cluster.AuditFilter{
		Namespace: namespace, Resource: "jobsets", Verbs: []string{"create"}, UserAgentPrefix: "trainjob-controller/",
	})
	if err != nil || len(events) != 1 {
		t.Errorf("%v; creates of JobSets: %v, want one", err, events)
	}
}
