package state

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var trainJobResource = trainer.SchemeGroupVersion.WithResource("trainjobs")

func TestFailedJobSetFailsTheJobWithItsReason(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	playJobSet(t, ns, "a", builders.Jobs(jobset.ReplicatedJobStatus{Name: "node", Failed: 1}),
		builders.Ended(jobset.JobSetFailed, "FailedJobs", "jobset failed due to one or more job failures"))
	job := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, "FailedJobs", soon)
	if got := condition(t, job, trainer.TrainJobFailed).Message; got != "jobset failed due to one or more job failures" {
		t.Errorf("message %q is not the JobSet's", got)
	}
	if job.Status.CompletionTime == nil || job.Status.JobsStatus[0].Failed != 1 {
		t.Errorf("completionTime %v, jobsStatus %v: want a time, and one failed Job", job.Status.CompletionTime, job.Status.JobsStatus)
	}
}

func TestFailedJobWhoseJobSetIsDeletedIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	playJobSet(t, ns, "a", builders.Ended(jobset.JobSetFailed, "FailedJobs", "it failed"))
	failed := env.AwaitState(t, ns, "a", trainer.TrainJobFailed, "FailedJobs", soon)
	before := env.AuditNow(t)
	deleteJobSet(t, ns, "a")
	harness.Eventually(t, soon, func() string {
		if env.Job(t, ns, "a").Status.JobsStatus[0].Active != 0 {
			return "the counters of the JobSet that is gone are not zero"
		}
		return nothing
	})
	patchJob(t, ns, "a", anEdit)
	setSuspend(t, ns, "a", true)
	setSuspend(t, ns, "a", false)
	harness.Consistently(t, 3*time.Second, func() string {
		if got := condition(t, env.Job(t, ns, "a"), trainer.TrainJobFailed); got != condition(t, failed, trainer.TrainJobFailed) {
			return fmt.Sprintf("the condition has changed to %v", got)
		}
		return nothing
	})
	wantNoCreates(t, before, ns)
}

func TestStateIsTrueAtEveryStepOfSuspendResumeComplete(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	wantOneStateAlways(t, ns)
	env.Create(t, newJob(ns, "a", builders.Suspended(true)))
	env.AwaitState(t, ns, "a", trainer.TrainJobSuspended, trainer.ReasonSuspended, soon)
	setSuspend(t, ns, "a", false)
	resumed := env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	if resumed.Status.ResumeTime == nil || len(resumed.Status.Conditions) > 0 {
		t.Errorf("resumed at %v, conditions %v: want a time, and none", resumed.Status.ResumeTime, resumed.Status.Conditions)
	}
	playRunning(t, ns, "a")
	env.AwaitState(t, ns, "a", trainer.TrainJobRunning, "", soon)
	env.Kubectl(t, "wait", "-n", ns, "--for=jsonpath={.status.state}=Running", "trainjob/a", "--timeout=5s")
	setSuspend(t, ns, "a", true)
	again := env.AwaitState(t, ns, "a", trainer.TrainJobSuspended, "", soon)
	if since := condition(t, again, trainer.TrainJobSuspended).LastTransitionTime; since.Before(resumed.Status.ResumeTime) {
		t.Errorf("suspended since %v, want it after the resume at %v", since, resumed.Status.ResumeTime)
	}
	awaitSuspend(t, ns, "a", true, soon)
	setSuspend(t, ns, "a", false)
	awaitSuspend(t, ns, "a", false, soon)
	playRunning(t, ns, "a")
	env.AwaitState(t, ns, "a", trainer.TrainJobRunning, "", soon)
	playCompleted(t, ns, "a")
	env.AwaitState(t, ns, "a", trainer.TrainJobComplete, "", soon)
	setSuspend(t, ns, "a", true)
	harness.Consistently(t, 3*time.Second, func() string {
		if state := env.Job(t, ns, "a").Status.State; state != trainer.TrainJobComplete {
			return "suspending a job that is Complete has made it " + string(state)
		}
		return nothing
	})
	// Each edit makes a new generation, which the condition must not be compared with.
	for _, on := range []bool{true, false} {
		setSuspend(t, ns, "a", on)
		env.Kubectl(t, "wait", "-n", ns, "--for=condition=Complete", "trainjob/a", "--timeout=5s")
	}
}

// wantOneStateAlways looks at every version of every job of a namespace from now to the
// end of the test.
func wantOneStateAlways(t *testing.T, ns string) {
	t.Helper()
	events, err := trainJobs(ns).Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if job, ok := event.Object.(*trainer.TrainJob); ok {
				if wrong := harness.Broken(job); wrong != "" {
					t.Errorf("version %s: %s", job.ResourceVersion, wrong)
				}
			}
		}
	}()
	t.Cleanup(func() { events.Stop(); <-done })
}

// awaitSuspend waits until the JobSet is told to hold back, or to go on, and then plays
// that its controller has done so.
func awaitSuspend(t *testing.T, ns, name string, want bool, timeout time.Duration) {
	t.Helper()
	harness.Eventually(t, timeout, func() string {
		js, err := jobSets(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if js.Spec.Suspend == nil || *js.Spec.Suspend != want {
			return fmt.Sprintf("the JobSet's suspend is not %t", want)
		}
		return nothing
	})
	env.PlayHeldBack(t, ns, name, want)
}

func TestJobSetThatSomebodyElseSuspendsGoesOn(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	patchJobSet(t, ns, "a", `{"spec":{"suspend":true}}`)
	env.PlayHeldBack(t, ns, "a", true)
	awaitSuspend(t, ns, "a", false, awake)
	if state := env.Job(t, ns, "a").Status.State; state == trainer.TrainJobSuspended {
		t.Errorf("the job is %s though nobody has suspended it", state)
	}
}

func TestEventsTellTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	env.Create(t, newJob(ns, "a", builders.Suspended(true), builders.TTL(1)))
	env.AwaitState(t, ns, "a", trainer.TrainJobSuspended, "", soon)
	setSuspend(t, ns, "a", false)
	awaitJobSet(t, ns, "a", "", soon)
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	playCompleted(t, ns, "a")
	env.Create(t, newJob(ns, "late", builders.Deadline(2)))
	for _, reason := range []string{"SnapshotCreated", "Suspended", "Resumed", "JobSetCreated", "Completed", "TTLExpired"} {
		awaitEvent(t, ns, "a", reason)
	}
	awaitEvent(t, ns, "late", trainer.ReasonDeadlineExceeded)
}

func TestEveryStatusWriteOfAFreshJobIsAccepted(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "a"))
	env.Create(t, newJob(ns, "held", builders.Suspended(true)))
	env.Create(t, newJob(ns, "lost", builders.Runtime(trainer.TrainingRuntimeKind, "missing")))
	env.AwaitState(t, ns, "a", trainer.TrainJobPending, trainer.ReasonWaitingForPods, soon)
	env.AwaitState(t, ns, "held", trainer.TrainJobSuspended, "", soon)
	env.AwaitState(t, ns, "lost", trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, soon)
	playJobSet(t, ns, "a", builders.Jobs(builders.NotStarted("node")))
	harness.Eventually(t, soon, func() string {
		raw, err := env.Dynamic.Resource(trainJobResource).Namespace(ns).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		status, _ := json.Marshal(raw.Object["status"].(map[string]any)["jobsStatus"])
		if want := `[{"active":0,"failed":0,"name":"node","ready":0,"succeeded":0,"suspended":0}]`; string(status) != want {
			return fmt.Sprintf("jobsStatus is %s, want %s", status, want)
		}
		return nothing
	})
	for _, e := range requests(t, before, ns, cluster.AuditFilter{Resource: "trainjobs/status"}) {
		if e.Code != 200 && e.Code != 409 {
			t.Errorf("a status write was refused:\n%s", listed([]cluster.AuditEvent{e}))
		}
	}
}

func TestManyStatusPatchesLoseNothingOfOtherClients(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	before := env.AuditNow(t)
	other := func(i int) {
		patchJob(t, ns, "a", fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
		job := env.Job(t, ns, "a")
		meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{
			Type: "example.com/Checked", Status: metav1.ConditionTrue, Reason: "Checked", Message: fmt.Sprintf("round %d", i),
		})
		// Conflicts are this client's own business: it has another go in the next round.
		_, _ = trainJobs(ns).UpdateStatus(t.Context(), job, metav1.UpdateOptions{})
	}
	paced(t, 50*time.Millisecond, 10*time.Second, func(i int) {
		counters := builders.Ready("node")
		if i%2 == 0 {
			counters = builders.Waiting("node")
		}
		playJobSet(t, ns, "a", builders.Jobs(counters))
		if i%5 == 0 {
			other(i)
		}
	})
	playCompleted(t, ns, "a")
	job := env.AwaitState(t, ns, "a", trainer.TrainJobComplete, "", soon)
	if !meta.IsStatusConditionTrue(job.Status.Conditions, "example.com/Checked") || job.Labels["round"] == "" {
		t.Errorf("what the other client wrote is lost: labels %v, conditions %v", job.Labels, job.Status.Conditions)
	}
	for _, e := range requests(t, before, ns, cluster.AuditFilter{Resource: "trainjobs", Writes: true}) {
		if e.Subresource != "status" {
			t.Errorf("the controller wrote more than the status:\n%s", listed([]cluster.AuditEvent{e}))
		}
	}
}

func TestCountersAloneAreWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	running(t, ns, "a")
	awaitQuiet(t, ns)
	before := env.AuditNow(t)
	start := time.Now()
	paced(t, 100*time.Millisecond, 5*time.Second, func(i int) {
		playJobSet(t, ns, "a", builders.Jobs(builders.Ready("node"), jobset.ReplicatedJobStatus{Name: "other", Succeeded: int32(i)}))
	})
	most := int(time.Since(start)/time.Second) + 2
	writes := requests(t, before, ns, cluster.AuditFilter{Writes: true, Match: notOfEvents})
	if len(writes) > most {
		t.Errorf("%d writes in %v, want at most %d:\n%s", len(writes), time.Since(start), most, listed(writes))
	}
	harness.Eventually(t, soon, func() string {
		js, err := jobSets(ns).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		want := js.Status.ReplicatedJobsStatus[1].Succeeded
		if got := env.Job(t, ns, "a").Status.JobsStatus[1].Succeeded; got != want {
			return fmt.Sprintf("the last count is %d, want %d", got, want)
		}
		return nothing
	})
}

func TestRuntimeOfUnknownKindFailsTheJobAndNoOther(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	env.Create(t, newJob(ns, "strange", builders.Runtime("Foo", "torch")))
	env.Create(t, newJob(ns, "far", func(job *trainer.TrainJob) {
		group := "example.com"
		job.Spec.RuntimeRef.APIGroup = &group
	}))
	env.AwaitState(t, ns, "strange", trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, soon)
	env.AwaitState(t, ns, "far", trainer.TrainJobFailed, trainer.ReasonTrainingRuntimeNotSupported, soon)
	running(t, ns, "a")
	for _, name := range []string{"strange", "far"} {
		writes := requests(t, before, ns, cluster.AuditFilter{Resource: "trainjobs", Name: name, Writes: true})
		if len(writes) != 1 {
			t.Errorf("want one write of %s:\n%s", name, listed(writes))
		}
	}
}

func TestJobManagedByAnotherControllerIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := setUp(t)
	before := env.AuditNow(t)
	for _, name := range []string{"a", "ended"} {
		env.Create(t, newJob(ns, name, builders.ManagedBy(trainer.ManagedByMultiKueue), builders.Deadline(5), builders.TTL(1)))
	}
	// The manager of one of them reports an end: the TTL is not ours to enforce either.
	status, err := json.Marshal(map[string]any{"status": trainer.TrainJobStatus{
		State: trainer.TrainJobComplete,
		Conditions: []metav1.Condition{{
			Type: string(trainer.TrainJobComplete), Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now(),
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainJobs(ns).Patch(t.Context(), "ended", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	// Whatever the controller looks at by time it looks at once a minute at least.
	harness.Consistently(t, 65*time.Second, func() string {
		if job := env.Job(t, ns, "ended"); len(job.Status.Conditions) != 1 {
			return fmt.Sprintf("the one that has ended has conditions: %v", job.Status.Conditions)
		}
		return stranger(t, ns)
	})
	if writes := requests(t, before, ns, cluster.AuditFilter{Writes: true}); len(writes) > 0 {
		t.Errorf("the controller has written:\n%s", listed(writes))
	}
}

// stranger says what the controller has done to a job that is not its own.
func stranger(t *testing.T, ns string) string {
	t.Helper()
	if job := env.Job(t, ns, "a"); job.Status.State != "" || len(job.Status.Conditions) > 0 {
		return fmt.Sprintf("it has a status: %v", job.Status)
	}
	return nothing
}
