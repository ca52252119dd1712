package render

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/pkg/render/framework"
	"github.com/trainjob/controller/pkg/trainjob"
)

// applyFramework puts what the framework adds into the containers and pods it names,
// and takes out the jobs that it does without.
func applyFramework(spec *jobsetv1alpha2.JobSetSpec, added framework.Output) {
	for _, addition := range added.Pods {
		rjob := framework.FindReplicatedJob(spec, addition.ReplicatedJob)
		if addition.Count != nil {
			rjob.Replicas = 1 // the names of the pods have one number that counts
			setPods(rjob, *addition.Count)
		}
		pod := &rjob.Template.Spec.Template.Spec
		pod.Volumes = mergeByKey(pod.Volumes, addition.Volumes, volumeName, replace[corev1.Volume])
		pod.InitContainers = append(pod.InitContainers, addition.InitContainers...)
	}
	containers := framework.Containers{}
	for _, addition := range added.Containers {
		container := containers.Find(framework.FindReplicatedJob(spec, addition.ReplicatedJob), addition.Container)
		container.Env = injectEnv(container.Env, addition.Env)
		container.Ports = addPorts(container.Ports, addition.Ports)
		container.Command = slices.Concat(addition.Wrapper, container.Command, addition.Command)
		container.VolumeMounts = mergeByKey(container.VolumeMounts, addition.Mounts, mountPath, replace[corev1.VolumeMount])
	}
	for _, name := range added.Removed {
		removeJob(spec, name)
	}
	if added.DNSHostnames {
		// JobSet's admission does the same; the job must not depend on its being there.
		if spec.Network == nil {
			spec.Network = &jobsetv1alpha2.Network{}
		}
		if spec.Network.EnableDNSHostnames == nil {
			spec.Network.EnableDNSHostnames = ptr.To(true)
		}
	}
}

// reservedNames lists the variables that applyFramework puts in place of others.
func reservedNames(added framework.Output) []Reserved {
	var all []Reserved
	for _, addition := range added.Containers {
		if len(addition.Env) == 0 {
			continue
		}
		reserved := Reserved{ReplicatedJob: addition.ReplicatedJob, Container: addition.Container}
		for i := range addition.Env {
			reserved.Names = append(reserved.Names, addition.Env[i].Name)
		}
		all = append(all, reserved)
	}
	return all
}

// setPods sets the number of pods of a job, all of which must complete.
func setPods(rjob *jobsetv1alpha2.ReplicatedJob, count int32) {
	rjob.Template.Spec.Parallelism = ptr.To(count)
	rjob.Template.Spec.Completions = ptr.To(count)
}

// removeJob takes a replicatedJob out of a JobSet, and with it whatever names it: a
// JobSet that waits for a job it does not have is refused.
func removeJob(spec *jobsetv1alpha2.JobSetSpec, name string) {
	spec.ReplicatedJobs = slices.DeleteFunc(spec.ReplicatedJobs, func(r jobsetv1alpha2.ReplicatedJob) bool { return r.Name == name })
	for i := range spec.ReplicatedJobs {
		rjob := &spec.ReplicatedJobs[i]
		rjob.DependsOn = slices.DeleteFunc(rjob.DependsOn, func(d jobsetv1alpha2.DependsOn) bool { return d.Name == name })
		if len(rjob.DependsOn) == 0 {
			rjob.DependsOn = nil
		}
	}
	same := func(target string) bool { return target == name }
	if policy := spec.SuccessPolicy; policy != nil && slices.ContainsFunc(policy.TargetReplicatedJobs, same) {
		policy.TargetReplicatedJobs = slices.DeleteFunc(policy.TargetReplicatedJobs, same)
		if len(policy.TargetReplicatedJobs) == 0 {
			policy.TargetReplicatedJobs = nil // all jobs that are left
		}
	}
	if policy := spec.FailurePolicy; policy != nil {
		// A rule about this job alone goes: without a target it would speak of all jobs.
		policy.Rules = slices.DeleteFunc(policy.Rules, func(r jobsetv1alpha2.FailurePolicyRule) bool {
			return len(r.TargetReplicatedJobs) > 0 && !slices.ContainsFunc(r.TargetReplicatedJobs, func(target string) bool { return target != name })
		})
		for i := range policy.Rules {
			policy.Rules[i].TargetReplicatedJobs = slices.DeleteFunc(policy.Rules[i].TargetReplicatedJobs, same)
		}
	}
	if spec.Coordinator != nil && spec.Coordinator.ReplicatedJob == name {
		spec.Coordinator = nil
	}
}

// noteLeftOut writes down which jobs of the runtime the JobSet does without.
func noteLeftOut(js *jobsetv1alpha2.JobSet, names []string) {
	if len(names) > 0 {
		metav1.SetMetaDataAnnotation(&js.ObjectMeta, v1alpha1.AnnotationLeftOutJobs, strings.Join(names, ","))
	}
}

// addHelpers makes the objects that the pods mount.
func addHelpers(objects *Objects, job *v1alpha1.TrainJob, added framework.Output) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: job.Namespace,
			Labels:          map[string]string{v1alpha1.LabelTrainJobName: job.Name},
			OwnerReferences: []metav1.OwnerReference{trainjob.OwnerReference(job)},
		}
	}
	for _, files := range added.ConfigMaps {
		objects.ConfigMaps = append(objects.ConfigMaps, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: meta(files.Name), Data: files.Data,
		})
	}
	if keys := added.Keys; keys != nil {
		objects.Keys = &KeySecret{Kind: keys.Kind, Secret: &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: meta(keys.Name), Immutable: ptr.To(true),
		}}
	}
}
