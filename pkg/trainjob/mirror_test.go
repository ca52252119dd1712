package trainjob

import (
	"testing"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
)

func TestJobsStatusMirrorsTheJobSet(t *testing.T) {
	full := jobset.ReplicatedJobStatus{Name: "node", Ready: 1, Succeeded: 2, Failed: 3, Active: 4, Suspended: 5}
	copied := trainer.JobStatus{Name: "node", Ready: 1, Succeeded: 2, Failed: 3, Active: 4, Suspended: 5}
	cases := map[string]struct {
		old    []trainer.JobStatus
		gone   bool   // there is no JobSet
		absent string // jobs that the JobSet does without
		jobSet []jobset.ReplicatedJobStatus
		want   []trainer.JobStatus
	}{
		"every counter is copied": {
			jobSet: []jobset.ReplicatedJobStatus{full}, want: []trainer.JobStatus{copied},
		},
		"without a JobSet nothing is invented": {gone: true},
		"when the JobSet is gone all counters are zero and the names stay": {
			old: []trainer.JobStatus{copied, {Name: "init", Succeeded: 1}}, gone: true,
			want: []trainer.JobStatus{{Name: "node"}, {Name: "init"}},
		},
		"a JobSet that has not counted yet is like none": {
			old: []trainer.JobStatus{copied}, want: []trainer.JobStatus{{Name: "node"}},
		},
		"the first JobSet, not counted yet": {},
		"known jobs keep their order and new ones follow": {
			old:    []trainer.JobStatus{{Name: "init"}, {Name: "node"}},
			jobSet: []jobset.ReplicatedJobStatus{{Name: "y"}, full, {Name: "x"}, {Name: "init", Succeeded: 1}},
			want:   []trainer.JobStatus{{Name: "init", Succeeded: 1}, copied, {Name: "y"}, {Name: "x"}},
		},
		"a job of the runtime that the JobSet does without has succeeded": {
			old:    []trainer.JobStatus{{Name: "node"}, {Name: "workers", Succeeded: 1}},
			jobSet: []jobset.ReplicatedJobStatus{full}, absent: "workers",
			want: []trainer.JobStatus{copied, {Name: "workers", Succeeded: 1}},
		},
		"before anything is counted it has not": {absent: "workers"},
		"when the JobSet is gone it counts zero like all others": {
			old: []trainer.JobStatus{copied, {Name: "workers", Succeeded: 1}}, gone: true, absent: "workers",
			want: []trainer.JobStatus{{Name: "node"}, {Name: "workers"}},
		},
		"a job the JobSet does not have is dropped": {
			old:    []trainer.JobStatus{{Name: "init"}, {Name: "node"}},
			jobSet: []jobset.ReplicatedJobStatus{full}, want: []trainer.JobStatus{copied},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := builders.TrainJob("a", func(job *trainer.TrainJob) { job.Status.JobsStatus = tc.old })
			seen := Observed{}
			if !tc.gone {
				seen.JobSet = builders.JobSetOf(job, builders.Jobs(tc.jobSet...))
				seen.JobSet.Annotations = map[string]string{trainer.AnnotationLeftOutJobs: tc.absent}
			}
			expect(t, "jobsStatus", tc.want, Next(job, seen, builders.At(1)).JobsStatus)
		})
	}
}

func TestJobSetSuspended(t *testing.T) {
	job := builders.TrainJob("a")
	cases := map[string]struct {
		jobSet *jobset.JobSet
		want   bool
	}{
		"told to hold back": {builders.JobSetOf(job, builders.HeldBack(true)), true},
		"told to run":       {builders.JobSetOf(job, builders.HeldBack(false)), false},
		"told nothing":      {builders.JobSetOf(job, func(js *jobset.JobSet) { js.Spec.Suspend = nil }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, "suspended", tc.want, JobSetSuspended(tc.jobSet)) })
	}
}
