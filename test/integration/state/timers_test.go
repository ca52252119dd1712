package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/trainjob"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func heldByAFinalizer(job *trainer.TrainJob) { job.Finalizers = []string{finalizer} }

func TestDeadlineOfAJobThatNothingWasCreatedFor(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "a", builders.Runtime(trainer.TrainingRuntimeKind, "missing"), builders.Deadline(6)))
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, soon)
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 2*soon)
	wantFailedAt(t, job, 6)
	createRuntime(t, ns, "missing", builders.TorchSpec())
	harness.Consistently(t, awake, func() string {
		if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobFailed {
			return "the failed job is " + string(state)
		}
		return nothing
	})
	wantNoCreates(t, before, ns)
}

func TestDeadlineGoesOnWhileTheJobIsBeingDeleted(t *testing.T) {
	t.Parallel()
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		t.Run(string(propagation), func(t *testing.T) {
			t.Parallel()
			ns := setUp(t)
			running(t, ns, "a", builders.Deadline(12), builders.TTL(1), heldByAFinalizer)
			patchJobSet(t, ns, "a", hold)
			deleteJob(t, ns, "a", propagation)
			before := env.AuditNow(t)
			job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, 2*soon)
			wantFailedAt(t, job, 12)
			// Deleted by the garbage collector or by the controller: its finalizer holds it.
			harness.Eventually(t, soon, func() string {
				if js := env.JobSetOf(t, ns, "a"); js == nil || js.DeletionTimestamp.IsZero() {
					return "the JobSet is not being deleted"
				}
				return nothing
			})
			patchJobSet(t, ns, "a", letGo)
			awaitNoJobSet(t, ns, "a", soon)
			awaitQuiet(t, ns)
			if deletes := deletesOf(t, before, ns, "a"); len(deletes) > 0 {
				t.Errorf("the TTL of a job that is being deleted already:\n%s", listed(deletes))
			}
			wantNoCreates(t, before, ns)
			patchJob(t, ns, "a", `{"metadata":{"finalizers":null}}`)
			awaitNoJob(t, ns, "a", soon)
		})
	}
}

func TestCompletionAtTheDeadlineIsTheOneEnd(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	const jobs = 20
	due := time.Now().Add(40 * time.Second)
	for i := range jobs {
		seconds := max(1, int64(time.Until(due)/time.Second))
		env.Create(t, newJob(ns, fmt.Sprintf("a%d", i), builders.Deadline(seconds)))
	}
	for i := range jobs {
		name := fmt.Sprintf("a%d", i)
		awaitJobSet(t, ns, name, "", soon)
		playRunning(t, ns, name)
	}
	// The JobSets complete one after the other around the second of the deadline. The
	// deadline may be faster and delete one that has not.
	until(t, due.Add(-time.Second))
	for i := range jobs {
		name := fmt.Sprintf("a%d", i)
		if js := env.JobSetOf(t, ns, name); js != nil {
			builders.Ended("Completed", "AllJobsCompleted", "jobset completed successfully")(js)
			_, _ = jobSets(ns).UpdateStatus(t.Context(), js, metav1.UpdateOptions{})
		}
	}
	for i := range jobs {
		harness.Eventually(t, 2*soon, func() string {
			job := env.Job(t, ns, fmt.Sprintf("a%d", i))
			if wrong := harness.Broken(job); wrong != "" {
				t.Fatal(wrong)
			}
			if len(terminalConditions(job)) == 0 {
				return job.Name + " has not ended"
			}
			return nothing
		})
	}
	awaitQuiet(t, ns)
	for i := range jobs {
		job := env.Job(t, ns, fmt.Sprintf("a%d", i))
		if got := terminalConditions(job); len(got) != 1 {
			t.Errorf("job %s has the terminal conditions %v, want one", job.Name, got)
		}
		js := env.JobSetOf(t, ns, job.Name)
		// A JobSet that ended after its job was failed, and before it was deleted, stays too.
		kept := js != nil && js.DeletionTimestamp.IsZero()
		if ended := kept && trainjob.JobSetEnd(js) != nil; kept != ended || (!kept && job.Status.State == trainer.TrainJobComplete) {
			t.Errorf("job %s is %s and its JobSet is kept: %t, and has ended: %t", job.Name, job.Status.State, kept, ended)
		}
	}
}

// A namespace that goes away takes jobs in every state with it, while their timers run
// out. The API server refuses everything new there meanwhile.
func TestNamespaceGoesAwayWithJobsInEveryState(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "running")
	running(t, ns, "due-soon", builders.Deadline(15), heldByAFinalizer)
	completed(t, ns, "finished", builders.TTL(3600))
	completed(t, ns, "expires-soon", builders.TTL(12), heldByAFinalizer)
	env.Create(t, newJob(ns, "held", builders.Suspended(true)))
	env.Create(t, newJob(ns, "held-due-soon", builders.Suspended(true), builders.Deadline(15), heldByAFinalizer))
	env.Create(t, newJob(ns, "waiting", builders.Runtime(trainer.TrainingRuntimeKind, "missing"), builders.Deadline(3600)))
	env.Create(t, newJob(ns, "foreign", builders.ManagedBy(trainer.ManagedByMultiKueue), builders.Deadline(1)))
	for name, state := range map[string]trainer.TrainJobState{
		"held": trainer.TrainJobSuspended, "held-due-soon": trainer.TrainJobSuspended, "waiting": trainer.TrainJobPending,
	} {
		env.AwaitState(t, ns, name, state, "", soon)
	}
	awaitQuiet(t, ns)

	before := env.AuditNow(t)
	if err := env.Core.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Those with a finalizer stay beyond their moments, and the namespace with them.
	for _, name := range []string{"due-soon", "held-due-soon"} {
		env.AwaitState(t, ns, name, trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, time.Minute)
	}
	harness.Consistently(t, 5*time.Second, func() string {
		if state := env.Job(t, ns, "expires-soon").Status.State; state != trainer.TrainJobComplete {
			return "the finished job is " + string(state)
		}
		return nothing
	})
	for _, name := range []string{"due-soon", "held-due-soon", "expires-soon"} {
		patchJob(t, ns, name, letGo)
	}
	harness.Eventually(t, 2*time.Minute, func() string {
		left, err := env.Core.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			return nothing
		}
		return fmt.Sprintf("the namespace is still there: %+v", left.Status)
	})

	refused := requests(t, before, ns, cluster.AuditFilter{Match: func(e cluster.AuditEvent) bool { return e.Code >= 400 && notOfEvents(e) }})
	if len(refused) > 10 { // a few of eight jobs may have come too late
		t.Errorf("%d requests were refused in a namespace that goes away:\n%s", len(refused), listed(refused))
	}
	made := requests(t, before, ns, cluster.AuditFilter{Verbs: []string{"create"}, Match: func(e cluster.AuditEvent) bool { return e.Code < 400 && notOfEvents(e) }})
	if len(made) > 0 {
		t.Errorf("created in a namespace that goes away:\n%s", listed(made))
	}
	troubles, err := harness.Troubles(env.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range troubles {
		if strings.Contains(line, ns) {
			t.Errorf("in the controller's log: %s", line)
		}
	}
}
