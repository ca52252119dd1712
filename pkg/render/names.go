package render

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// randomSuffix stands for what Kubernetes appends to the names of a Job's pods.
const randomSuffix = "-xxxxx"

// longestPodName is the longest name of a pod of a replicatedJob: that of the highest
// indexes. Pods of jobs that are not indexed have no index in their names.
func longestPodName(jobSet string, rjob *jobsetv1alpha2.ReplicatedJob) string {
	name := fmt.Sprintf("%s-%s-%d", jobSet, rjob.Name, max(rjob.Replicas, 1)-1)
	job := &rjob.Template.Spec
	if job.CompletionMode == nil || *job.CompletionMode == batchv1.IndexedCompletion {
		pods := parallelism(job)
		if job.Completions != nil {
			pods = *job.Completions
		}
		name = fmt.Sprintf("%s-%d", name, pods-1) // -1 without pods: JobSet's admission demands room for that too
	}
	return name + randomSuffix
}

// checkPodNames refuses jobs whose pods could not be created, at a moment when the
// reason can still be explained. The names of Jobs are shorter, and the job's own name
// is also that of the Service, so one rule covers all of them.
func checkPodNames(js *jobsetv1alpha2.JobSet) field.ErrorList {
	path := field.NewPath("metadata", "name")
	for i := range js.Spec.ReplicatedJobs {
		rjob := &js.Spec.ReplicatedJobs[i]
		name := longestPodName(js.Name, rjob)
		if size := len(name); size > validation.DNS1035LabelMaxLength {
			return field.ErrorList{field.Invalid(path, shortened(js.Name, maxValueBytes), fmt.Sprintf(
				"the pods of replicatedJob %s would get names like %s, which has %d characters of at most %d: use a name that is %d shorter, or fewer nodes",
				shortened(rjob.Name, maxValueBytes), shortened(name, 2*maxValueBytes), size, validation.DNS1035LabelMaxLength,
				size-validation.DNS1035LabelMaxLength))}
		}
		if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
			return field.ErrorList{field.Invalid(path, js.Name, fmt.Sprintf(
				"the pods of replicatedJob %s would get names like %s, which is no DNS label: %s",
				rjob.Name, name, strings.Join(problems, "; ")))}
		}
	}
	return nil
}
