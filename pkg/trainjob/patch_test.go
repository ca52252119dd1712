package trainjob

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func counting(active int32) []trainer.JobStatus {
	return []trainer.JobStatus{{Name: "init", Active: active}, {Name: "node", Active: active}}
}

func TestCompare(t *testing.T) {
	type status = trainer.TrainJobStatus
	cases := map[string]struct {
		active int32 // of each of two jobs, before
		change func(*status)
		want   Change
	}{
		"nothing differs": {want: Same},
		"nil and empty are the same": {
			change: func(s *status) { s.TrainerStatus, s.Conditions = nil, []metav1.Condition{} }, want: Same,
		},
		"the same moment in another time zone is the same": {
			change: func(s *status) {
				s.StartTime = ptr.To(metav1.NewTime(builders.At(1).In(time.FixedZone("x", 3600))))
			}, want: Same,
		},
		"a counter moved": {
			active: 1, change: func(s *status) { s.JobsStatus[0].Ready = 1 }, want: Details,
		},
		"jobs begin to be active": {
			active: 0, change: func(s *status) { s.JobsStatus = counting(1) }, want: Details,
		},
		"one of two jobs is not active any more": {
			active: 1, change: func(s *status) { s.JobsStatus[0].Active = 0 }, want: Details,
		},
		"the last active job is not active any more": {
			active: 1, change: func(s *status) { s.JobsStatus = counting(0) }, want: Substantial,
		},
		"the counters are gone": {
			active: 1, change: func(s *status) { s.JobsStatus = nil }, want: Substantial,
		},
		"nothing was active and a counter moved": {
			active: 0, change: func(s *status) { s.JobsStatus[1].Succeeded = 1 }, want: Details,
		},
		"the state differs":       {change: func(s *status) { s.State = trainer.TrainJobRunning }, want: Substantial},
		"a condition was added":   {change: func(s *status) { s.Conditions = []metav1.Condition{{Type: "X"}} }, want: Substantial},
		"the reason differs":      {change: func(s *status) { s.Reason = trainer.ReasonCreationFailed }, want: Substantial},
		"the message differs":     {change: func(s *status) { s.Message = "in other words" }, want: Details},
		"the start time appeared": {change: func(s *status) { s.StartTime = nil }, want: Substantial},
		"a counter moved and so did something else": {
			active: 1, change: func(s *status) { s.JobsStatus[0].Ready, s.Nodes = 1, ptr.To[int32](2) }, want: Substantial,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", func(job *trainer.TrainJob) {
				job.Status.State, job.Status.Reason, job.Status.Message = trainer.TrainJobPending, trainer.ReasonWaitingForPods, "waiting"
				job.Status.JobsStatus = counting(tc.active)
				job.Status.StartTime = ptr.To(metav1.NewTime(builders.At(1)))
			})
			next := job.Status.DeepCopy()
			if tc.change != nil {
				tc.change(next)
			}
			expect(t, "change", tc.want, Compare(job, next))
		})
	}
}

func TestTheWordingOfAConditionFollowsThatOfTheState(t *testing.T) {
	quota := &Cause{trainer.ReasonCreationFailed, "exceeded quota"}
	suspended := step(builders.TrainJob("a", builders.Suspended(true)), 1, Observed{})
	next := Next(suspended, Observed{Blocked: quota}, builders.At(2))
	expect(t, "a suspended job will be blocked", Details, Compare(suspended, next))

	refused := step(builders.TrainJob("a"), 1, Observed{Blocked: quota})
	next = Next(refused, Observed{Blocked: &Cause{trainer.ReasonCreationFailed, "exceeded quota by 2"}}, builders.At(2))
	expect(t, "a refusal in other words", Rewording, Compare(refused, next))
}

func TestStatusPatchHoldsOnlyWhatDiffers(t *testing.T) {
	started := metav1.NewTime(builders.At(1))
	job := builders.TrainJob("a", func(job *trainer.TrainJob) {
		job.ResourceVersion = "7"
		job.Status = trainer.TrainJobStatus{
			State:         trainer.TrainJobPending,
			Conditions:    []metav1.Condition{{Type: "Foreign", Status: metav1.ConditionTrue}},
			JobsStatus:    []trainer.JobStatus{{Name: "node", Active: 1}},
			TrainerStatus: &trainer.TrainerStatus{ProgressPercentage: ptr.To[int32](50)},
			StartTime:     &started,
		}
	})
	type status = trainer.TrainJobStatus
	const head = `{"metadata":{"resourceVersion":"7","uid":"a-uid"},"status":`
	cases := map[string]struct {
		change func(*status)
		want   string
	}{
		"nothing":     {func(*status) {}, ""},
		"one field":   {func(s *status) { s.State = trainer.TrainJobRunning }, head + `{"state":"Running"}}`},
		"a new field": {func(s *status) { s.Nodes = new(int32) }, head + `{"nodes":0}}`},
		"a removed field": {
			func(s *status) { s.StartTime = nil }, head + `{"startTime":null}}`,
		},
		"a list that became empty": {
			func(s *status) { s.JobsStatus = nil }, head + `{"jobsStatus":null}}`,
		},
		"zeros of counters are written": {
			func(s *status) { s.JobsStatus = []trainer.JobStatus{{Name: "node"}} },
			head + `{"jobsStatus":[{"name":"node","ready":0,"succeeded":0,"failed":0,"active":0,"suspended":0}]}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			next := job.Status.DeepCopy()
			tc.change(next)
			patch, err := StatusPatch(job, next)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "patch", tc.want, string(patch))
			if (patch == nil) != (tc.want == "") {
				t.Errorf("patch is nil: %t", patch == nil)
			}
			expect(t, "patched status", next, patched(t, job, patch))
		})
	}
}

// patched is the status after an API server has applied a merge patch to the job.
func patched(t *testing.T, job *trainer.TrainJob, patch []byte) *trainer.TrainJobStatus {
	t.Helper()
	if patch == nil {
		return job.Status.DeepCopy()
	}
	before, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		t.Fatal(err)
	}
	result := &trainer.TrainJob{}
	if err := json.Unmarshal(after, result); err != nil {
		t.Fatal(err)
	}
	return &result.Status
}
