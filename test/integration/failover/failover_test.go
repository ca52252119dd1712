package failover

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

const (
	// failoversEnv is the number of failovers, for runs longer than the usual.
	failoversEnv = "TRAINJOB_FAILOVERS"
	timers       = 100
	// promised is how late a deadline may be at most, whatever becomes of the leader.
	promised = 15 * time.Second
	// each is about how long one failover takes, with what follows.
	each = 20 * time.Second
)

// trial is the state of the test.
type trial struct {
	t         *testing.T
	namespace string
	start     cluster.AuditPosition
	logFile   string
	replicas  []*replica

	outages  []outage
	inFlight int // writes of old leaders that came too late, and were refused
}

// outage is the time without a leader.
type outage struct {
	kind     string
	from, to time.Time
}

func TestDeadlinesAreKeptWhateverBecomesOfTheLeader(t *testing.T) {
	failovers := 4
	if more := os.Getenv(failoversEnv); more != "" {
		var err error
		if failovers, err = strconv.Atoi(more); err != nil || failovers < 1 {
			t.Fatalf("%s=%q: want a number of failovers", failoversEnv, more)
		}
	}
	tr := &trial{t: t, namespace: env.Namespace(t), start: env.AuditNow(t), logFile: filepath.Join(t.TempDir(), "replicas.log")}
	env.NewRuntime(t, tr.namespace, builders.PlainSpec())
	for range 2 {
		tr.replicas = append(tr.replicas, startReplica(t, tr.logFile))
	}
	jobs := tr.createJobs(20*time.Second, time.Duration(failovers)*each)
	kinds := []struct {
		name string
		fail func(leader *replica) (failed time.Time, taken time.Time)
	}{{"kill -9", tr.kill}, {"stopped and continued", tr.stop}, {"lease forbidden", tr.cut}}
	for i := range failovers {
		kind := kinds[i%len(kinds)]
		leader, standby := leaderOf(t, tr.replicas)
		failed, taken := kind.fail(leader)
		tr.outages = append(tr.outages, outage{kind.name, failed, taken})
		t.Logf("failover %d, %s: %.1f s without a leader", i+1, kind.name, taken.Sub(failed).Seconds())
		if kind.name != "kill -9" {
			tr.endedBadly(leader)
		}
		tr.replicas = []*replica{standby, startReplica(t, tr.logFile)}
	}
	tr.awaitAll(jobs)
	tr.judge(jobs)
}

// createJobs makes jobs whose deadlines are spread over a time.
func (tr *trial) createJobs(first, over time.Duration) []*trainer.TrainJob {
	var jobs []*trainer.TrainJob
	for i := range timers {
		after := first + over*time.Duration(i)/timers
		jobs = append(jobs, env.NewJob(tr.t, tr.namespace, fmt.Sprintf("timer-%d", i), builders.Deadline(int64(after/time.Second))))
	}
	return jobs
}

func due(job *trainer.TrainJob) time.Time {
	return job.CreationTimestamp.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second)
}

func (tr *trial) kill(leader *replica) (failed, taken time.Time) {
	position := env.AuditNow(tr.t)
	failed = time.Now()
	if err := leader.Kill(); err != nil {
		tr.t.Fatal(err)
	}
	return failed, takeover(tr.t, leader, position)
}

// stop holds up what the leader sends, stops the process while that is under way, and
// lets both go on once there is another leader that has done all the work.
func (tr *trial) stop(leader *replica) (failed, taken time.Time) {
	t := tr.t
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, len(tr.outages)) }
	held := env.NewJob(t, tr.namespace, name("held"))
	env.AwaitJobSet(t, held, false)
	position := env.AuditNow(t)
	failed = time.Now()
	leader.line.hold(true)
	// What the leader now sends: a snapshot to create, a status to patch, and a JobSet to
	// patch.
	fresh := env.NewJob(t, tr.namespace, name("fresh"))
	waiting := env.NewJob(t, tr.namespace, name("waiting"), builders.Runtime(trainer.TrainingRuntimeKind, "missing"))
	env.PatchJob(t, tr.namespace, held.Name, harness.Suspend)
	// Long enough to decide and to send, and shorter than it takes to give up the lease.
	<-time.After(3 * time.Second)
	if err := syscall.Kill(leader.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	taken = takeover(t, leader, position)
	env.AwaitJobSet(t, fresh, false)
	env.AwaitJobSet(t, held, true)
	env.AwaitState(t, tr.namespace, waiting.Name, trainer.TrainJobPending, trainer.ReasonWaitingForRuntime, time.Minute)
	// Whatever was due when the leader was stopped has been done by the new one.
	harness.Eventually(t, time.Minute, func() string {
		list, err := env.Trainer.TrainerV1alpha1().TrainJobs(tr.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			j := &list.Items[i]
			if j.Spec.ActiveDeadlineSeconds != nil && due(j).Before(taken) && j.Status.State != trainer.TrainJobFailed {
				return j.Name + " is overdue"
			}
		}
		return ""
	})
	leader.line.hold(false)
	harness.Eventually(t, harness.Soon, func() string {
		if len(tr.late(leader, position, taken)) == 0 {
			return "nothing of what was held back has arrived"
		}
		return ""
	})
	if err := syscall.Kill(leader.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tr.awaitEnd(leader)
	for _, e := range tr.late(leader, position, taken) {
		// A delete of what the new leader has deleted finds nothing.
		if e.Code != http.StatusConflict && !(e.Verb == "delete" && e.Code == http.StatusNotFound) {
			t.Errorf("a leader that had been replaced for %s: %s %s/%s %s: code %d, want %d",
				e.Received.Sub(taken), e.Verb, e.Resource, e.Subresource, e.Name, e.Code, http.StatusConflict)
		}
		tr.inFlight++
	}
	return failed, taken
}

// late are the writes of an old leader that arrived after it was replaced. Tries to renew
// the lease, and events for people to read, are no work.
func (tr *trial) late(leader *replica, position cluster.AuditPosition, taken time.Time) []cluster.AuditEvent {
	tr.t.Helper()
	return env.Audit(tr.t, position, cluster.AuditFilter{User: harness.ControllerUser, Writes: true, Match: func(e cluster.AuditEvent) bool {
		return e.Credential == leader.credential && e.Received.After(taken) && e.Resource != "events" && e.Resource != "leases"
	}})
}

// cut takes the lease away from everybody. That the next leader comes later than the end
// of the old one says nothing, as nobody can take the lease until then: what counts is
// that the old one is at its end before others, who can still write, would take over.
func (tr *trial) cut(leader *replica) (failed, taken time.Time) {
	t := tr.t
	restore := cutLease(t)
	tr.awaitEnd(leader)
	failed = time.Now() // it has worked until now
	lease := leaseDuration(t)
	renewed := lastOf(env.Audit(t, tr.start, cluster.AuditFilter{User: harness.ControllerUser, Resource: "leases", Writes: true,
		Match: func(e cluster.AuditEvent) bool { return e.Credential == leader.credential && e.Code < 300 }}))
	wrote := lastOf(env.Audit(t, tr.start, cluster.AuditFilter{User: harness.ControllerUser, Writes: true,
		Match: func(e cluster.AuditEvent) bool {
			return e.Credential == leader.credential && e.Resource != "events" && e.Resource != "leases"
		}}))
	if renewed.IsZero() || wrote.IsZero() {
		t.Fatalf("the leader renewed its lease last at %v and wrote last at %v: this run proves nothing", renewed, wrote)
	}
	t.Logf("after its last renewal the leader wrote for %.1f s, and ended after %.1f s", wrote.Sub(renewed).Seconds(), failed.Sub(renewed).Seconds())
	for what, at := range map[string]time.Time{"ended": failed, "wrote": wrote} {
		if past := at.Sub(renewed); past >= lease {
			t.Errorf("the leader %s %s after it had renewed its lease, want it before others may take it, within %s", what, past, lease)
		}
	}
	position := env.AuditNow(t)
	restore()
	return failed, takeover(t, leader, position)
}

// lastOf is when the last of the requests came.
func lastOf(events []cluster.AuditEvent) (last time.Time) {
	for _, e := range events {
		if e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

func (tr *trial) awaitEnd(leader *replica) {
	tr.t.Helper()
	select {
	case <-leader.Exited():
	case <-time.After(time.Minute):
		tr.t.Fatal("a leader that has lost its lease goes on")
	}
}

// endedBadly checks the exit code of a process that has ended by itself.
func (tr *trial) endedBadly(leader *replica) {
	tr.t.Helper()
	if err := leader.Stop(); err == nil {
		tr.t.Error("a leader that has lost its lease ended with exit code 0")
	}
}

// awaitAll waits until every deadline has passed and taken effect.
func (tr *trial) awaitAll(jobs []*trainer.TrainJob) {
	last := due(jobs[len(jobs)-1])
	harness.Eventually(tr.t, max(0, time.Until(last))+2*time.Minute, func() string {
		list, err := env.Trainer.TrainerV1alpha1().TrainJobs(tr.namespace).List(tr.t.Context(), metav1.ListOptions{})
		if err != nil {
			tr.t.Fatal(err)
		}
		for _, job := range list.Items {
			if job.Spec.ActiveDeadlineSeconds != nil && job.Status.State != trainer.TrainJobFailed {
				return job.Name + " has not failed"
			}
		}
		return ""
	})
}

// judge measures how late each deadline was, by the request that made the job fail, and
// looks for work that was done twice.
func (tr *trial) judge(jobs []*trainer.TrainJob) {
	t := tr.t
	writes := env.Audit(t, tr.start, cluster.AuditFilter{User: harness.ControllerUser, Writes: true, Namespace: tr.namespace,
		Match: func(e cluster.AuditEvent) bool { return e.Code < 300 && e.Resource != "events" }})
	var late []time.Duration
	during := 0
	for _, job := range jobs {
		at := slices.IndexFunc(writes, func(e cluster.AuditEvent) bool {
			return e.Resource == "trainjobs" && e.Subresource == "status" && e.Name == job.Name && !e.Received.Before(due(job))
		})
		if at < 0 {
			t.Errorf("no write made %s fail", job.Name)
			continue
		}
		lateness := writes[at].Received.Sub(due(job))
		if lateness > promised {
			t.Errorf("%s failed %.1f s after its deadline, want at most %s", job.Name, lateness.Seconds(), promised)
		}
		late = append(late, lateness)
		if slices.ContainsFunc(tr.outages, func(o outage) bool { return due(job).After(o.from) && due(job).Before(o.to) }) {
			during++
		}
	}
	made := map[string]int{}
	for _, e := range writes {
		if e.Verb == "create" {
			made[e.Resource+" "+e.Name]++
		}
	}
	for what, times := range made {
		if times > 1 {
			t.Errorf("%s was created %d times", what, times)
		}
	}
	stopped := slices.ContainsFunc(tr.outages, func(o outage) bool { return o.kind == "stopped and continued" })
	if stopped && tr.inFlight == 0 {
		t.Error("no write was under way when a leader was stopped: this run proves nothing about them")
	}
	if during == 0 {
		t.Error("no deadline was due while there was no leader: this run proves nothing about them")
	}
	troubles, err := harness.Crashes(tr.logFile)
	if err != nil || len(troubles) > 0 {
		t.Errorf("%v; in the replicas' log: %v", err, troubles)
	}
	slices.Sort(late)
	longest := slices.MaxFunc(tr.outages, func(a, b outage) int { return int(a.to.Sub(a.from) - b.to.Sub(b.from)) })
	t.Logf("%d failovers, the longest %.1f s (%s); %d deadlines, %d of them due without a leader: late by %.1f s at most, %.1f s at the median; %d writes of old leaders refused",
		len(tr.outages), longest.to.Sub(longest.from).Seconds(), longest.kind, len(late), during,
		late[len(late)-1].Seconds(), late[len(late)/2].Seconds(), tr.inFlight)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
