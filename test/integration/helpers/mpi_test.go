package helpers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestManyMPIJobsAtOnceGetTheirKeysOnce(t *testing.T) {
	const count = 200
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.MPISpec())
	start := env.AuditNow(t)
	jobs := make([]*trainer.TrainJob, count)
	var creators sync.WaitGroup
	for worker := range 10 {
		creators.Go(func() {
			for i := worker; i < count; i += 10 {
				job := builders.TrainJob(fmt.Sprintf("a-%d", i), builders.Runtime(trainer.TrainingRuntimeKind, harness.RuntimeName))
				job.Namespace = namespace
				created, err := env.Trainer.TrainerV1alpha1().TrainJobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create %s: %v", job.Name, err)
					return
				}
				jobs[i] = created
			}
		})
	}
	creators.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, job := range jobs {
		env.AwaitState(t, namespace, job.Name, trainer.TrainJobPending, trainer.ReasonWaitingForPods, time.Minute)
	}

	// Whatever is done again, the Secrets are written once and never read.
	if err := env.StopController(); err != nil {
		t.Fatal(err)
	}
	if err := env.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.PatchJob(t, namespace, jobs[0].Name, `{"metadata":{"labels":{"touched":"true"}}}`)
	complete(t, namespace, jobs[0].Name)
	env.AwaitState(t, namespace, jobs[0].Name, trainer.TrainJobComplete, "", harness.Soon)

	want := map[string]int{"create configmaps": 2 * count, "create secrets": count, "create jobsets": count, "patch trainjobs/status": count + 1}
	got := harness.Summary(env.Writes(t, start, namespace))
	delete(got, "patch trainjobs/status (409)") // the end of the JobSet may be seen before our own label is
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	all := env.Audit(t, 0, cluster.AuditFilter{UserAgentPrefix: harness.ControllerAgent, Resource: "secrets"})
	for _, request := range all {
		if request.Verb != "create" {
			t.Errorf("the controller asked to %s Secrets: %s", request.Verb, request.RequestURI)
		}
	}
	checkSecrets(t, namespace, jobs)
	for _, job := range jobs {
		checkHostfile(t, job)
	}
}

// checkSecrets looks for one Secret a job, each with keys of its own.
func checkSecrets(t *testing.T, namespace string, jobs []*trainer.TrainJob) {
	t.Helper()
	list, err := env.Core.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names, want []string
	keys := map[string]bool{}
	for _, secret := range list.Items {
		names = append(names, secret.Name)
		keys[string(secret.Data[corev1.SSHAuthPrivateKey])] = true
		if secret.Immutable == nil || !*secret.Immutable || len(secret.OwnerReferences) != 1 {
			t.Errorf("Secret %s: immutable %v, owners %v", secret.Name, secret.Immutable, secret.OwnerReferences)
		}
	}
	for _, job := range jobs {
		want = append(want, fmt.Sprintf("%s-mpi-ssh-%s", job.Name, string(job.UID)[:8]))
	}
	slices.Sort(names)
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	if len(keys) != len(jobs) {
		t.Errorf("%d jobs have %d different keys", len(jobs), len(keys))
	}
}

func checkHostfile(t *testing.T, job *trainer.TrainJob) {
	t.Helper()
	cm, err := env.Core.CoreV1().ConfigMaps(job.Namespace).Get(t.Context(), job.Name+"-mpi-hostfile", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%[1]s-node-0-0.%[1]s slots=1\n%[1]s-node-0-1.%[1]s slots=1\n", job.Name)
	if diff := cmp.Diff(want, cm.Data["hostfile"]); diff != "" || !metav1.IsControlledBy(cm, job) {
		t.Errorf("hostfile of %s (-want +got), owners %v:\n%s", job.Name, cm.OwnerReferences, diff)
	}
}

func TestAStrangersHostfileHoldsTheJobUpUntilItGoes(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.MPISpec())
	configMaps := env.Core.CoreV1().ConfigMaps(namespace)
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-mpi-hostfile"}, Data: map[string]string{"mine": "yes"}}
	if _, err := configMaps.Create(t.Context(), stranger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := env.NewJob(t, namespace, "a")
	env.AwaitState(t, namespace, "a", trainer.TrainJobPending, trainer.ReasonJobSetConflict, harness.Soon)
	if cm, err := configMaps.Get(t.Context(), "a-mpi-hostfile", metav1.GetOptions{}); err != nil || cm.Data["mine"] != "yes" {
		t.Errorf("the stranger's ConfigMap was touched: %v, %v", cm, err)
	}
	if env.JobSetOf(t, namespace, "a") != nil {
		t.Error("there is a JobSet without its hostfile")
	}
	if err := configMaps.Delete(t.Context(), "a-mpi-hostfile", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.AwaitJobSet(t, job, false)
	checkHostfile(t, job)
}
