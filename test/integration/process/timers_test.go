package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// waiting says how the number of jobs that wait for each timer, as a replica counts it,
// differs from what it must be.
func waiting(t *testing.T, replica *harness.Controller, deadlines, ttls int) string {
	t.Helper()
	body, err := replica.Get(t.Context(), "/metrics")
	if err != nil {
		return err.Error()
	}
	for timer, n := range map[string]int{"deadline": deadlines, "ttl": ttls} {
		want := fmt.Sprintf("trainjob_controller_timer_waiting_jobs{timer=%q} %d\n", timer, n)
		if !strings.Contains(body, want) {
			var lines []string
			for line := range strings.Lines(body) {
				if strings.HasPrefix(line, "trainjob_controller_timer_waiting_jobs{") {
					lines = append(lines, line)
				}
			}
			return fmt.Sprintf("want %s, got %s", want, lines)
		}
	}
	return ""
}

func TestJobsThatWaitForATimerAreCountedByTheLeaderAlone(t *testing.T) {
	alone(t)
	namespace := env.Namespace(t)
	createRuntime(t, namespace)
	flags := electionFlags(t)
	first := replica(t, "first", flags...)
	awaitLeader(t)
	second := replica(t, "second", flags...)
	for name, change := range map[string][]builders.JobOption{
		"deadline": {builders.Deadline(3600)}, "both": {builders.Deadline(3600), builders.TTL(3600)},
		"neither": nil, "late": {builders.Deadline(1), builders.TTL(3600)},
	} {
		job := newJob(namespace, name)
		for _, option := range change {
			option(job)
		}
		env.Create(t, job)
	}
	env.AwaitState(t, namespace, "late", trainer.TrainJobFailed, trainer.ReasonDeadlineExceeded, harness.Soon)
	exactly := func(deadlines, ttls int, replica *harness.Controller) {
		t.Helper()
		harness.Eventually(t, harness.Soon, func() string { return waiting(t, replica, deadlines, ttls) })
	}
	exactly(2, 1, first)
	exactly(0, 0, second)

	jobs := env.Trainer.TrainerV1alpha1().TrainJobs(namespace)
	for _, name := range []string{"both", "late"} {
		if err := jobs.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	exactly(1, 0, first)
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	harness.Eventually(t, time.Minute, func() string { return waiting(t, second, 1, 0) })
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}
