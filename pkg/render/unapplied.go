package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// Unapplied names the fields that the job's patches set, that desired (rendered with
// these patches) has and the live JobSet has not, and that JobSet can no longer take:
// everything but what UpdateSuspended writes. Each is named once, in patch order, as
// in "replicatedJobs[node].containers[node].env[LOG_LEVEL]".
//
// Only what the patches mention is compared, so that neither defaults of admission nor
// what another version of this controller rendered is mistaken for a change. A field
// that a patch used to set and no longer mentions is not noticed.
func Unapplied(patches []v1alpha1.RuntimePatch, live, desired *jobsetv1alpha2.JobSet) []string {
	var out differences
	liveJobs, desiredJobs := firstByKey(live.Spec.ReplicatedJobs, jobName), firstByKey(desired.Spec.ReplicatedJobs, jobName)
	for i := range patches {
		if isEmptyPatch(&patches[i]) {
			continue
		}
		template := patches[i].TrainingRuntimeSpec.Template
		out.metadata("metadata", template.Metadata, &live.ObjectMeta, &desired.ObjectMeta)
		if template.Spec == nil {
			continue
		}
		for k := range template.Spec.ReplicatedJobs {
			patch := &template.Spec.ReplicatedJobs[k]
			have, isLive := liveJobs[patch.Name]
			want, isDesired := desiredJobs[patch.Name]
			if isLive && isDesired && patch.Template != nil {
				out.job(fmt.Sprintf("replicatedJobs[%s]", patch.Name), patch.Template, &live.Spec.ReplicatedJobs[have], &desired.Spec.ReplicatedJobs[want])
			}
		}
	}
	return out.names
}

// differences collects names of fields, each once.
type differences struct {
	names []string
	seen  map[string]bool
}

// compare notes the field when a patch sets it and live does not have what desired
// has. Fields that desired leaves unset may have any default in live.
func (d *differences) compare(name string, patched bool, live, desired any) {
	if !patched || d.seen[name] || equality.Semantic.DeepDerivative(desired, live) {
		return
	}
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	d.seen[name] = true
	d.names = append(d.names, name)
}

func (d *differences) metadata(name string, patch, live, desired *metav1.ObjectMeta) {
	if patch == nil {
		return
	}
	d.compare(name+".labels", len(patch.Labels) > 0, live.Labels, desired.Labels)
	d.compare(name+".annotations", len(patch.Annotations) > 0,
		withoutHash(live.Annotations), withoutHash(desired.Annotations))
}

// withoutHash leaves out the annotation that differs whenever the patches do.
func withoutHash(annotations map[string]string) map[string]string {
	rest := make(map[string]string, len(annotations))
	for key, value := range annotations {
		if key != v1alpha1.AnnotationPatchesHash {
			rest[key] = value
		}
	}
	return rest
}

func (d *differences) job(name string, patch *v1alpha1.JobTemplatePatch, live, desired *jobsetv1alpha2.ReplicatedJob) {
	d.metadata(name+".metadata", patch.Metadata, &live.Template.ObjectMeta, &desired.Template.ObjectMeta)
	if patch.Spec == nil || patch.Spec.Template == nil || patch.Spec.Template.Spec == nil {
		return
	}
	pod := patch.Spec.Template.Spec
	have, want := &live.Template.Spec.Template.Spec, &desired.Template.Spec.Template.Spec
	d.compare(name+".serviceAccountName", pod.ServiceAccountName != nil, have.ServiceAccountName, want.ServiceAccountName)
	d.compare(name+".imagePullSecrets", len(pod.ImagePullSecrets) > 0, have.ImagePullSecrets, want.ImagePullSecrets)
	d.compare(name+".securityContext", pod.SecurityContext != nil, have.SecurityContext, want.SecurityContext)
	d.compare(name+".affinity", pod.Affinity != nil, have.Affinity, want.Affinity)
	d.compare(name+".terminationGracePeriodSeconds", pod.TerminationGracePeriodSeconds != nil,
		have.TerminationGracePeriodSeconds, want.TerminationGracePeriodSeconds)
	compareItems(d, name+".volumes", pod.Volumes, have.Volumes, want.Volumes, volumeName)
	d.containers(name+".initContainers", pod.InitContainers, have.InitContainers, want.InitContainers)
	d.containers(name+".containers", pod.Containers, have.Containers, want.Containers)
}

func (d *differences) containers(name string, patches []v1alpha1.ContainerPatch, live, desired []corev1.Container) {
	if len(patches) == 0 {
		return
	}
	inLive, inDesired := firstByKey(live, containerName), firstByKey(desired, containerName)
	for i := range patches {
		patch := &patches[i]
		at, isLive := inLive[patch.Name]
		wanted, isDesired := inDesired[patch.Name]
		if !isLive || !isDesired {
			continue
		}
		path, have, want := fmt.Sprintf("%s[%s]", name, patch.Name), &live[at], &desired[wanted]
		compareItems(d, path+".env", patch.Env, have.Env, want.Env, envName)
		compareItems(d, path+".volumeMounts", patch.VolumeMounts, have.VolumeMounts, want.VolumeMounts, mountPath)
		d.compare(path+".securityContext", patch.SecurityContext != nil, have.SecurityContext, want.SecurityContext)
	}
}

// compareItems compares the items of two lists that a patch mentions.
func compareItems[T any](d *differences, name string, patch, live, desired []T, key func(*T) string) {
	if len(patch) == 0 {
		return
	}
	inLive, inDesired := firstByKey(live, key), firstByKey(desired, key)
	item := func(list []T, first map[string]int, key string) *T {
		if at, found := first[key]; found {
			return &list[at]
		}
		return nil
	}
	for i := range patch {
		of := key(&patch[i])
		d.compare(fmt.Sprintf("%s[%s]", name, of), true, item(live, inLive, of), item(desired, inDesired, of))
	}
}
