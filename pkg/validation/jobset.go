package validation

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/pkg/render/framework"
)

// checkJobSet refuses references within a JobSet that lead nowhere, as JobSet's own
// admission would when the job is to start.
func checkJobSet(spec *jobset.JobSetSpec) field.ErrorList {
	var errs field.ErrorList
	jobs := sets.New[string]()
	known := func(path *field.Path, names ...string) {
		for i, name := range names {
			if !jobs.Has(name) {
				errs = append(errs, invalid(path.Index(i), name, "the template has no such replicatedJob: name one of %s", framework.JobNames(spec)))
			}
		}
	}
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		for k, other := range rjob.DependsOn {
			if !jobs.Has(other.Name) { // of those before this one
				errs = append(errs, invalid(jobsPath.Key(rjob.Name).Child("dependsOn").Index(k).Child("name"), other.Name,
					"a replicatedJob waits for one that stands before it: name one of those, or move it"))
			}
		}
		jobs.Insert(rjob.Name)
	}
	if policy := spec.SuccessPolicy; policy != nil {
		known(templatePath.Child("successPolicy", "targetReplicatedJobs"), policy.TargetReplicatedJobs...)
	}
	if policy := spec.FailurePolicy; policy != nil {
		for i := range policy.Rules {
			known(templatePath.Child("failurePolicy", "rules").Index(i).Child("targetReplicatedJobs"), policy.Rules[i].TargetReplicatedJobs...)
		}
	}
	if coordinator := spec.Coordinator; coordinator != nil && framework.FindReplicatedJob(spec, coordinator.ReplicatedJob) == nil {
		errs = append(errs, invalid(templatePath.Child("coordinator", "replicatedJob"), coordinator.ReplicatedJob,
			"the template has no such replicatedJob: name one of %s", framework.JobNames(spec)))
	}
	if network := spec.Network; network != nil && network.Subdomain != "" && len(validation.IsDNS1035Label(network.Subdomain)) > 0 {
		errs = append(errs, invalid(templatePath.Child("network", "subdomain"), network.Subdomain,
			"it becomes the name of a Service: use at most 63 lower-case letters, digits and '-', beginning with a letter"))
	}
	return append(errs, checkClaims(spec)...)
}

// checkClaims refuses volume claims that no container mounts, or that have the name of a
// volume.
func checkClaims(spec *jobset.JobSetSpec) field.ErrorList {
	if len(spec.VolumeClaimPolicies) == 0 {
		return nil
	}
	var errs field.ErrorList
	mounted, volumesOf := sets.New[string](), map[string]string{} // of which job
	for r := range spec.ReplicatedJobs {
		pod := &spec.ReplicatedJobs[r].Template.Spec.Template.Spec
		for i := range pod.Volumes {
			if _, found := volumesOf[pod.Volumes[i].Name]; !found {
				volumesOf[pod.Volumes[i].Name] = spec.ReplicatedJobs[r].Name
			}
		}
		for _, list := range listsOf(pod) {
			for c := range list {
				for m := range list[c].VolumeMounts {
					mounted.Insert(list[c].VolumeMounts[m].Name)
				}
			}
		}
	}
	for i := range spec.VolumeClaimPolicies {
		for k := range spec.VolumeClaimPolicies[i].Templates {
			name := spec.VolumeClaimPolicies[i].Templates[k].Name
			path := templatePath.Child("volumeClaimPolicies").Index(i).Child("templates").Index(k).Child("metadata", "name")
			if rjob, found := volumesOf[name]; found {
				errs = append(errs, invalid(path, name, "replicatedJob %s has a volume of this name: rename one of the two", rjob))
			}
			if !mounted.Has(name) {
				errs = append(errs, invalid(path, name, "no container mounts the claim: add a volumeMount of this name, or remove the claim").WithOrigin(byPatch))
			}
		}
	}
	return errs
}

// claimNames are the volumes that JobSet adds to the pods that mount them.
func claimNames(spec *jobset.JobSetSpec) []string {
	var names []string
	for i := range spec.VolumeClaimPolicies {
		for k := range spec.VolumeClaimPolicies[i].Templates {
			names = append(names, spec.VolumeClaimPolicies[i].Templates[k].Name)
		}
	}
	return names
}
