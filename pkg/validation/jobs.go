package validation

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render"
)

const (
	// maxPods is the most pods that an indexed Job can have.
	maxPods = 100_000
	// maxObjectBytes is the largest request that etcd takes by default. What the API server
	// adds to an object, such as who has written which field, comes on top.
	maxObjectBytes = 3 << 19
)

// checkJobs refuses what the API server would refuse of the Jobs that JobSet makes, and of
// the JobSet for its size.
func checkJobs(job *trainer.TrainJob, objects *render.Objects) field.ErrorList {
	var errs field.ErrorList
	jobs := objects.JobSet.Spec.ReplicatedJobs
	for i := range jobs {
		path := jobsPath.Key(jobs[i].Name).Child("template", "spec")
		errs = append(errs, checkRestarts(&jobs[i].Template.Spec, path)...)
		errs = append(errs, checkCount(job, objects.TrainerJob, &jobs[i], path)...)
	}
	return append(errs, checkSize(objects.JobSet)...)
}

func checkRestarts(job *batchv1.JobSpec, path *field.Path) field.ErrorList {
	policy := job.Template.Spec.RestartPolicy
	path = path.Child("template", "spec", "restartPolicy")
	switch {
	case job.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		return field.ErrorList{invalid(path, string(policy), "podFailurePolicy judges pods that have failed, and with this policy they are restarted instead: set Never, or remove podFailurePolicy")}
	case policy != "" && policy != corev1.RestartPolicyNever && policy != corev1.RestartPolicyOnFailure:
		return field.ErrorList{invalid(path, string(policy), "the pods of a Job end: set Never or OnFailure")}
	}
	return nil
}

// checkCount refuses more pods than a Job with a completion index can have.
func checkCount(job *trainer.TrainJob, trainerJob string, rjob *jobset.ReplicatedJob, path *field.Path) field.ErrorList {
	spec := &rjob.Template.Spec
	if ptr.Deref(spec.CompletionMode, batchv1.IndexedCompletion) != batchv1.IndexedCompletion {
		return nil
	}
	pods := max(ptr.Deref(spec.Parallelism, 1), ptr.Deref(spec.Completions, 1))
	if pods <= maxPods {
		return nil
	}
	path = path.Child("parallelism")
	if t := job.Spec.Trainer; rjob.Name == trainerJob && t != nil && t.NumNodes != nil {
		path = trainerPath.Child("numNodes")
	}
	return field.ErrorList{field.Invalid(path, pods, fmt.Sprintf("a Job can have at most %d pods: give fewer", maxPods))}
}

// checkSize refuses a JobSet that cannot be stored. It is made of the template and of what
// the job lays over it, each of which could be stored.
func checkSize(js *jobset.JobSet) field.ErrorList {
	data, err := json.Marshal(js)
	if err != nil || len(data) <= maxObjectBytes {
		return nil
	}
	return field.ErrorList{field.Invalid(templatePath, len(data), fmt.Sprintf(
		"the JobSet would take so many bytes, and the API server stores at most %d: give shorter commands, arguments and variables in the template and in the job", maxObjectBytes))}
}

// checkResourceClaims refuses resource claims that the pod does not have.
func (c containerOf) checkResourceClaims(pod podOfJob) field.ErrorList {
	if len(c.Resources.Claims) == 0 {
		return nil
	}
	var errs field.ErrorList
	own := sets.New[string]()
	if t := c.job.Spec.Trainer; c.trains() && t != nil && t.ResourcesPerNode != nil {
		for _, claim := range t.ResourcesPerNode.Claims {
			own.Insert(claim.Name)
		}
	}
	for i, claim := range c.Resources.Claims {
		if pod.resourceClaims.Has(claim.Name) {
			continue
		}
		path := c.path.Child("resources", "claims").Index(i).Child("name")
		if own.Has(claim.Name) {
			path = trainerPath.Child("resourcesPerNode", "claims").Key(claim.Name)
		}
		err := field.NotFound(path, shortened(claim.Name))
		err.Detail = fmt.Sprintf("the pods of replicatedJob %s have no such claim in resourceClaims: name one that the runtime has, or remove it", c.rjob)
		errs = append(errs, err)
	}
	return errs
}
