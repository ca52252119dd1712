package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/pkg/render/framework"
)

// checkJobSet refuses references within a JobSet that lead nowhere, as JobSet's own
// admission would when the job is to start.
func checkJobSet(spec *jobset.JobSetSpec) field.ErrorList {
	var errs field.ErrorList
	known := func(path *field.Path, names ...string) {
		for i, name := range names {
			if framework.FindReplicatedJob(spec, name) == nil {
				errs = append(errs, invalid(path.Index(i), name, "the template has no such replicatedJob: name one of %s", framework.JobNames(spec)))
			}
		}
	}
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		for k, other := range rjob.DependsOn {
			if !slices.ContainsFunc(spec.ReplicatedJobs[:i], func(r jobset.ReplicatedJob) bool { return r.Name == other.Name }) {
				errs = append(errs, invalid(jobsPath.Key(rjob.Name).Child("dependsOn").Index(k).Child("name"), other.Name,
					"a replicatedJob waits for one that stands before it: name one of those, or move it"))
			}
		}
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
	var errs field.ErrorList
	for i := range spec.VolumeClaimPolicies {
		for k := range spec.VolumeClaimPolicies[i].Templates {
			name, mounted := spec.VolumeClaimPolicies[i].Templates[k].Name, false
			path := templatePath.Child("volumeClaimPolicies").Index(i).Child("templates").Index(k).Child("metadata", "name")
			for r := range spec.ReplicatedJobs {
				pod := &spec.ReplicatedJobs[r].Template.Spec.Template.Spec
				if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
					errs = append(errs, invalid(path, name, "replicatedJob %s has a volume of this name: rename one of the two", spec.ReplicatedJobs[r].Name))
				}
				for _, list := range listsOf(pod) {
					mounted = mounted || slices.ContainsFunc(list, func(c corev1.Container) bool {
						return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
					})
				}
			}
			if !mounted {
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
