package preflight

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/test/builders"
)

// said is a termination message of preflight.
func said(outcome report.Outcome, exit int, scope report.Scope, reason, message string) string {
	r := report.Report{
		APIVersion: report.APIVersion, Kind: report.Kind, Outcome: outcome, ExitCode: exit, Reason: reason, Message: message,
		Checks: []report.Check{{Name: "gpu", Finding: report.Finding{Status: report.StatusFail, Outcome: outcome, Scope: scope, Reason: reason}}},
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// podOf is a pod of a JobSet "a" whose preflight has ended so, at a second.
func podOf(rank, node string, exit int32, message string, second int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: builders.Namespace, Name: "a-node-0-" + rank + "-xyz", UID: types.UID("pod-" + rank),
			Labels:      map[string]string{trainer.LabelPreflight: trainer.ContainerPreflight, jobset.JobSetNameKey: "a", jobset.JobSetUIDKey: "js", restartAttempt: "0"},
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: rank},
		},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "preflight-install", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			{Name: trainer.ContainerPreflight, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exit, Message: message, FinishedAt: metav1.NewTime(builders.At(second)),
			}}},
		}},
	}
}

var (
	fatal = said(report.Fatal, 30, report.ScopeJob, "CUDADriverTooOld", "cuda: too old")
	lost  = said(report.Reschedule, 21, report.ScopeNode, "GPULost", "gpu: lost")
	good  = said(report.Pass, 0, "", "Passed", "6 checks passed")
	odd   = said(report.Warning, 0, report.ScopeNode, "StorageSlow", "storage: slow")
)

func TestTheWorstReportIsTheJobs(t *testing.T) {
	retried := podOf("1", "n1", 20, said(report.Retryable, 20, report.ScopeCluster, "DNSTimeout", "dns: no answer"), 5)
	waiting := &retried.Status.InitContainerStatuses[1]
	waiting.LastTerminationState, waiting.State = waiting.State, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	second := podOf("0", "n9", 0, good, 50)
	second.Labels[restartAttempt] = "1"
	cases := map[string]struct {
		pods []*corev1.Pod
		want *trainer.PreflightStatus
	}{
		"nobody has reported":           {},
		"good news waits for all":       {pods: []*corev1.Pod{podOf("0", "n0", 0, good, 5)}},
		"all is well":                   {pods: []*corev1.Pod{podOf("0", "n0", 0, good, 5), podOf("1", "n1", 0, good, 6)}, want: &trainer.PreflightStatus{Outcome: "Pass", Reason: "Passed"}},
		"a warning":                     {pods: []*corev1.Pod{podOf("0", "n0", 0, odd, 5)}, want: &trainer.PreflightStatus{Outcome: "Warning", Reason: "StorageSlow", Message: "storage: slow", Nodes: []string{"n0"}}},
		"the worst of several":          {pods: []*corev1.Pod{podOf("0", "n0", 0, odd, 5), podOf("1", "n1", 30, fatal, 6)}, want: &trainer.PreflightStatus{Outcome: "Fatal", Reason: "CUDADriverTooOld", Message: "cuda: too old", Nodes: []string{"n1"}}},
		"two nodes are as bad":          {pods: []*corev1.Pod{podOf("1", "n2", 21, lost, 6), podOf("0", "n1", 21, lost, 6)}, want: &trainer.PreflightStatus{Outcome: "Reschedule", Reason: "GPULost", Message: "gpu: lost", Nodes: []string{"n1", "n2"}}},
		"tried again in the same pod":   {pods: []*corev1.Pod{retried}, want: &trainer.PreflightStatus{Outcome: "Retryable", Reason: "DNSTimeout", Message: "dns: no answer", Nodes: []string{"n1"}}},
		"only the latest run counts":    {pods: []*corev1.Pod{podOf("1", "n1", 30, fatal, 6), second}},
		"report only lets it go on":     {pods: []*corev1.Pod{podOf("0", "n0", 0, fatal, 5)}, want: &trainer.PreflightStatus{Outcome: "Warning", Reason: "CUDADriverTooOld", Message: "cuda: too old", Nodes: []string{"n0"}}},
		"it crashed":                    {pods: []*corev1.Pod{podOf("0", "n0", 137, "", 5)}, want: &trainer.PreflightStatus{Outcome: "Fatal", Reason: "PreflightCrashed", Message: "no report, exit code 137 ()", Nodes: []string{"n0"}}},
		"ended by a signal":             {pods: []*corev1.Pod{podOf("0", "n0", 143, "", 5)}},
		"a reason that cannot be one":   {pods: []*corev1.Pod{podOf("0", "n0", 30, said(report.Fatal, 30, "", "not a reason", "x"), 5)}, want: &trainer.PreflightStatus{Outcome: "Fatal", Reason: "PreflightCrashed"}},
		"the exit code has the say":     {pods: []*corev1.Pod{podOf("0", "n0", 30, good, 5)}, want: &trainer.PreflightStatus{Outcome: "Fatal", Reason: "Passed", Message: "6 checks passed", Nodes: []string{"n0"}}},
		"a pod without preflight":       {pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}},
		"a message of another language": {pods: []*corev1.Pod{podOf("0", "n0", 2, "panic: \xff", 5)}, want: &trainer.PreflightStatus{Outcome: "Fatal", Reason: "PreflightCrashed", Message: "no report, exit code 2 () panic: ?", Nodes: []string{"n0"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := worst(reports(tc.pods), 2)
			if got != nil {
				if got.Time.IsZero() {
					t.Error("there is no time")
				}
				got.Time = metav1.Time{}
				if name == "a reason that cannot be one" {
					got.Message, got.Nodes = "", nil // quotes the whole message
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatPodsSayIsBounded(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 100 {
		rank := string(rune('a'+i/26)) + string(rune('a'+i%26))
		pods = append(pods, podOf(rank, "node-"+rank, 30, said(report.Fatal, 30, "", "Long", strings.Repeat("ü", 5000)), 5))
	}
	got := worst(reports(pods), 100)
	if len(got.Message) > longestMessage || len(got.Nodes) != maxNodes {
		t.Errorf("a message of %d bytes, %d nodes", len(got.Message), len(got.Nodes))
	}
}

func TestOnlyAFaultyNodeIsOne(t *testing.T) {
	for message, want := range map[string]bool{
		lost: true, fatal: false, good: false,
		said(report.Reschedule, 21, report.ScopePeer, "PeersMissing", "x"): false,
	} {
		if got := reports([]*corev1.Pod{podOf("0", "n0", 21, message, 5)})[0].faulty; got != want {
			t.Errorf("%s: faulty %v", message, got)
		}
	}
}

func TestEachReportHasOneEvent(t *testing.T) {
	job := builders.TrainJob("a")
	events := newTold()
	all := reports([]*corev1.Pod{podOf("0", "n0", 0, good, 5), podOf("1", "n1", 20, fatal, 6)})
	if got := events.news(theJob, job, all); len(got) != 1 || got[0].rank != "1" {
		t.Errorf("first: %+v", got)
	}
	if got := events.news(theJob, job, all); len(got) != 0 {
		t.Errorf("again: %+v", got)
	}
	all[1].finished = all[1].finished.Add(10 * time.Second) // tried again in the pod
	if got := events.news(theJob, job, all); len(got) != 1 {
		t.Errorf("the second try: %+v", got)
	}
	// A new process knows the time of what was told before it began.
	job.Status.Preflight = &trainer.PreflightStatus{Time: metav1.NewTime(builders.At(16))}
	if got := newTold().news(theJob, job, all); len(got) != 0 {
		t.Errorf("after a restart: %+v", got)
	}
	events.forget(theJob)
	if len(events.jobs) != 0 {
		t.Error("a job that is gone is remembered")
	}
}
