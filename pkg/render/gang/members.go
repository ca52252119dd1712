package gang

import (
	"slices"

	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// membersOf are the jobs that start at the same moment as the one that is placed as a
// whole. A group that counted a pod which is made later, or one that is gone by then,
// would wait for ever.
func membersOf(in Input) []*jobsetv1alpha2.ReplicatedJob {
	name := in.TrainerJob
	if in.GangJob != "" {
		name = in.GangJob
	}
	jobs := in.JobSet.Spec.ReplicatedJobs
	at := slices.IndexFunc(jobs, func(r jobsetv1alpha2.ReplicatedJob) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	var members []*jobsetv1alpha2.ReplicatedJob
	for i := range jobs {
		if i == at || !oneAfterTheOther(&in.JobSet.Spec) && sameDependencies(&jobs[i], &jobs[at]) {
			members = append(members, &jobs[i])
		}
	}
	return members
}

// oneAfterTheOther says whether each job waits for the one before it.
func oneAfterTheOther(spec *jobsetv1alpha2.JobSetSpec) bool {
	return spec.StartupPolicy != nil && spec.StartupPolicy.StartupPolicyOrder == jobsetv1alpha2.InOrder
}

// sameDependencies says whether two jobs wait for the same, in whatever order it is
// written.
func sameDependencies(a, b *jobsetv1alpha2.ReplicatedJob) bool {
	within := func(a, b []jobsetv1alpha2.DependsOn) bool {
		return !slices.ContainsFunc(a, func(d jobsetv1alpha2.DependsOn) bool { return !slices.Contains(b, d) })
	}
	return within(a.DependsOn, b.DependsOn) && within(b.DependsOn, a.DependsOn)
}

// podsOf is the number of pods that a replicatedJob starts with.
func podsOf(rjob *jobsetv1alpha2.ReplicatedJob) int64 {
	job := &rjob.Template.Spec
	pods := ptr.Deref(job.Parallelism, 1)
	if job.Completions != nil {
		pods = min(pods, *job.Completions)
	}
	return int64(max(rjob.Replicas, 1)) * int64(pods)
}
