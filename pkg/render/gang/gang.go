package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// How the two schedulers know the pods of a group.
const (
	coschedulingLabel = "scheduling.x-k8s.io/pod-group"
	volcanoAnnotation = "scheduling.k8s.io/group-name"
	// volcanoQueue, on the runtime's template, names the queue.
	volcanoQueue = "scheduling.volcano.sh/queue-name"
)

// Input is what a PodGroup is made from.
type Input struct {
	// JobSet is complete but for what makes its pods members of the group.
	JobSet *jobsetv1alpha2.JobSet
	// Owner is the TrainJob.
	Owner metav1.OwnerReference
	// Policy is spec.podGroupPolicy of the runtime; nil when it has none.
	Policy *v1alpha1.PodGroupPolicy
	// Template are the annotations of the runtime's template. The queue is read there and
	// not on the JobSet, where a job's patches could choose one that is not the user's.
	Template map[string]string
	// TrainerJob is the replicatedJob that trains.
	TrainerJob string
	// GangJob is the replicatedJob that is placed as a whole, where that is another.
	GangJob string
}

// KindOf is the kind of the PodGroup that a policy asks for; false if it asks for none.
func KindOf(policy *v1alpha1.PodGroupPolicy) (schema.GroupVersionKind, bool) {
	switch {
	case policy == nil:
		return schema.GroupVersionKind{}, false
	case policy.Coscheduling != nil:
		return schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"}, true
	case policy.Volcano != nil:
		return schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}, true
	}
	return schema.GroupVersionKind{}, false
}

// Build returns the PodGroup and makes the pods of JobSet its members. A policy without
// a scheduler, and a job without pods, have none.
func Build(in Input) (*unstructured.Unstructured, field.ErrorList) {
	kind, wanted := KindOf(in.Policy)
	if !wanted {
		return nil, nil
	}
	if in.Policy.Coscheduling != nil && in.Policy.Volcano != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec", "podGroupPolicy"), "coscheduling, volcano",
			"one scheduler places the pods: keep one of these fields and remove the other")}
	}
	members := membersOf(in)
	count, total := requests(members)
	if count == 0 {
		return nil, nil
	}
	spec := map[string]any{"minMember": count}
	if needed := quantities(total); len(needed) > 0 {
		spec["minResources"] = needed
	}
	if in.Policy.Coscheduling != nil {
		spec["scheduleTimeoutSeconds"] = int64(ptr.Deref(in.Policy.Coscheduling.ScheduleTimeoutSeconds, 60))
	} else {
		addVolcano(spec, in)
	}
	for _, rjob := range members {
		join(rjob, in.JobSet.Name, in.Policy)
	}
	return newPodGroup(in, kind, spec), nil
}

func newPodGroup(in Input, kind schema.GroupVersionKind, spec map[string]any) *unstructured.Unstructured {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	group.SetGroupVersionKind(kind)
	group.SetName(in.JobSet.Name)
	group.SetNamespace(in.JobSet.Namespace)
	group.SetLabels(map[string]string{v1alpha1.LabelTrainJobName: in.Owner.Name})
	group.SetOwnerReferences([]metav1.OwnerReference{in.Owner})
	return group
}

// addVolcano adds what only Volcano knows.
func addVolcano(spec map[string]any, in Input) {
	if queue := in.Template[volcanoQueue]; queue != "" {
		spec["queue"] = queue
	}
	for i := range in.JobSet.Spec.ReplicatedJobs {
		rjob := &in.JobSet.Spec.ReplicatedJobs[i]
		if class := rjob.Template.Spec.Template.Spec.PriorityClassName; rjob.Name == in.TrainerJob && class != "" {
			spec["priorityClassName"] = class
		}
	}
	topology := in.Policy.Volcano.NetworkTopology
	if topology == nil {
		return
	}
	wanted := map[string]any{"mode": "hard"}
	if topology.Mode != "" {
		wanted["mode"] = topology.Mode
	}
	if topology.HighestTierName != "" {
		wanted["highestTierName"] = topology.HighestTierName
	} else {
		wanted["highestTierAllowed"] = int64(ptr.Deref(topology.HighestTierAllowed, 1))
	}
	spec["networkTopology"] = wanted
}

// join makes the pods of a job members of the group.
func join(rjob *jobsetv1alpha2.ReplicatedJob, group string, policy *v1alpha1.PodGroupPolicy) {
	meta := &rjob.Template.Spec.Template.ObjectMeta
	if policy.Coscheduling != nil {
		metav1.SetMetaDataLabel(meta, coschedulingLabel, group)
		return
	}
	metav1.SetMetaDataAnnotation(meta, volcanoAnnotation, group)
}

// requests are the number of pods of the jobs, and what they need together.
func requests(members []*jobsetv1alpha2.ReplicatedJob) (int64, corev1.ResourceList) {
	var count int64
	total := corev1.ResourceList{}
	for _, rjob := range members {
		pods := podsOf(rjob)
		count += pods
		for name, quantity := range podRequests(&rjob.Template.Spec.Template.Spec) {
			quantity = quantity.DeepCopy()
			quantity.Mul(pods)
			add(total, corev1.ResourceList{name: quantity})
		}
	}
	return count, total
}

// quantities are written as the API server writes them.
func quantities(list corev1.ResourceList) map[string]any {
	out := make(map[string]any, len(list))
	for name, quantity := range list {
		if quantity.Cmp(resource.Quantity{}) > 0 {
			out[string(name)] = quantity.String()
		}
	}
	return out
}
