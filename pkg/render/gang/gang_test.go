package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// job has pods with one container that asks for one CPU.
func job(name string, pods int32, dependsOn ...string) jobsetv1alpha2.ReplicatedJob {
	rjob := jobsetv1alpha2.ReplicatedJob{Name: name}
	rjob.Template.Spec.Parallelism, rjob.Template.Spec.Completions = &pods, ptr.To(pods)
	rjob.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")}}}
	for _, name := range dependsOn {
		rjob.DependsOn = append(rjob.DependsOn, jobsetv1alpha2.DependsOn{Name: name, Status: jobsetv1alpha2.DependencyComplete})
	}
	return rjob
}

func coscheduling() *v1alpha1.PodGroupPolicy {
	return &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{}}}
}

func volcano(topology *v1alpha1.VolcanoNetworkTopology) *v1alpha1.PodGroupPolicy {
	return &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{Volcano: &v1alpha1.VolcanoPodGroupPolicySource{NetworkTopology: topology}}}
}

func input(policy *v1alpha1.PodGroupPolicy, jobs ...jobsetv1alpha2.ReplicatedJob) Input {
	return Input{
		JobSet: &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "bert", Namespace: "research"}, Spec: jobsetv1alpha2.JobSetSpec{ReplicatedJobs: jobs}},
		Owner:  metav1.OwnerReference{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "bert", UID: "u1", Controller: ptr.To(true)},
		Policy: policy, TrainerJob: "node",
	}
}

func TestCoscheduling(t *testing.T) {
	in := input(coscheduling(), job("node", 2))
	in.Policy.Coscheduling.ScheduleTimeoutSeconds = ptr.To[int32](30)
	got, errs := Build(in)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	want := map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{
			"name": "bert", "namespace": "research", "labels": map[string]any{"trainer.kubeflow.org/trainjob-name": "bert"},
			"ownerReferences": []any{map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "bert", "uid": "u1", "controller": true}},
		},
		"spec": map[string]any{"minMember": int64(2), "minResources": map[string]any{"cpu": "2"}, "scheduleTimeoutSeconds": int64(30)},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("PodGroup (-want +got):\n%s", diff)
	}
	pod := in.JobSet.Spec.ReplicatedJobs[0].Template.Spec.Template
	if diff := cmp.Diff(metav1.ObjectMeta{Labels: map[string]string{"scheduling.x-k8s.io/pod-group": "bert"}}, pod.ObjectMeta); diff != "" {
		t.Errorf("metadata of the pods (-want +got):\n%s", diff)
	}
}

func TestVolcano(t *testing.T) {
	cases := map[string]struct {
		topology *v1alpha1.VolcanoNetworkTopology
		queue    string
		class    string
		want     map[string]any
	}{
		"nothing else is asked for": {nil, "", "", map[string]any{}},
		"a queue":                   {nil, "gold", "", map[string]any{"queue": "gold"}},
		"a priority class":          {nil, "", "high", map[string]any{"priorityClassName": "high"}},
		"a topology without values": {&v1alpha1.VolcanoNetworkTopology{}, "", "",
			map[string]any{"networkTopology": map[string]any{"mode": "hard", "highestTierAllowed": int64(1)}}},
		"a topology by tier": {&v1alpha1.VolcanoNetworkTopology{Mode: "soft", HighestTierAllowed: ptr.To(3)}, "", "",
			map[string]any{"networkTopology": map[string]any{"mode": "soft", "highestTierAllowed": int64(3)}}},
		"a topology by name goes before the default tier": {&v1alpha1.VolcanoNetworkTopology{HighestTierAllowed: ptr.To(1), HighestTierName: "rack"}, "", "",
			map[string]any{"networkTopology": map[string]any{"mode": "hard", "highestTierName": "rack"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			other, node := job("other", 1), job("node", 1)
			other.Template.Spec.Template.Spec.PriorityClassName = "somebody's"
			node.Template.Spec.Template.Spec.PriorityClassName = tc.class
			in := input(volcano(tc.topology), other, node)
			in.Template = map[string]string{"scheduling.volcano.sh/queue-name": tc.queue}
			in.JobSet.Annotations = map[string]string{"scheduling.volcano.sh/queue-name": "of a patch"}
			got, errs := Build(in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			tc.want["minMember"], tc.want["minResources"] = int64(2), map[string]any{"cpu": "2"}
			if diff := cmp.Diff(tc.want, got.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if got.GetAPIVersion() != "scheduling.volcano.sh/v1beta1" {
				t.Errorf("apiVersion %s", got.GetAPIVersion())
			}
			pod := in.JobSet.Spec.ReplicatedJobs[1].Template.Spec.Template
			if diff := cmp.Diff(metav1.ObjectMeta{Annotations: map[string]string{"scheduling.k8s.io/group-name": "bert"}}, pod.ObjectMeta); diff != "" {
				t.Errorf("metadata of the pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyPodsThatStartTogetherAreCounted(t *testing.T) {
	replicated, sparse, unset := job("other", 2), job("node", 5), job("node", 1)
	replicated.Replicas = 3
	sparse.Template.Spec.Completions = ptr.To[int32](4)
	unset.Template.Spec.Parallelism, unset.Template.Spec.Completions = nil, nil
	cases := map[string]struct {
		jobs    []jobsetv1alpha2.ReplicatedJob
		change  func(*Input)
		count   int64
		members []string
	}{
		"one job":                           {[]jobsetv1alpha2.ReplicatedJob{job("node", 2)}, nil, 2, []string{"node"}},
		"initializers are over by then":     {[]jobsetv1alpha2.ReplicatedJob{job("dataset", 1), job("model", 1), job("node", 2, "dataset", "model")}, nil, 2, []string{"node"}},
		"a job that waits comes later":      {[]jobsetv1alpha2.ReplicatedJob{job("node", 2), job("eval", 1, "node")}, nil, 2, []string{"node"}},
		"a job beside it":                   {[]jobsetv1alpha2.ReplicatedJob{job("node", 2), job("server", 3)}, nil, 5, []string{"node", "server"}},
		"jobs that wait for the same":       {[]jobsetv1alpha2.ReplicatedJob{job("a", 1), job("b", 1), job("node", 2, "a", "b"), job("server", 3, "b", "a")}, nil, 5, []string{"node", "server"}},
		"a job that does not wait as it":    {[]jobsetv1alpha2.ReplicatedJob{job("a", 1), job("node", 2, "a"), job("server", 3)}, nil, 2, []string{"node"}},
		"all replicas of a job":             {[]jobsetv1alpha2.ReplicatedJob{job("node", 2), replicated}, nil, 8, []string{"node", "other"}},
		"no more pods than must complete":   {[]jobsetv1alpha2.ReplicatedJob{sparse}, nil, 4, []string{"node"}},
		"a job that does not say how many":  {[]jobsetv1alpha2.ReplicatedJob{unset}, nil, 1, []string{"node"}},
		"workers that a launcher waits for": {[]jobsetv1alpha2.ReplicatedJob{job("launcher", 1, "node"), job("node", 4)}, func(in *Input) { in.TrainerJob, in.GangJob = "launcher", "node" }, 4, []string{"node"}},
		"jobs that start one after another": {[]jobsetv1alpha2.ReplicatedJob{job("server", 3), job("node", 2)}, func(in *Input) {
			in.JobSet.Spec.StartupPolicy = &jobsetv1alpha2.StartupPolicy{StartupPolicyOrder: "InOrder"}
		}, 2, []string{"node"}},
		"no pods are no group":               {[]jobsetv1alpha2.ReplicatedJob{job("node", 0)}, nil, 0, nil},
		"nor is a job that is not there one": {[]jobsetv1alpha2.ReplicatedJob{job("other", 1)}, nil, 0, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(coscheduling(), tc.jobs...)
			if tc.change != nil {
				tc.change(&in)
			}
			group, errs := Build(in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var count int64
			if group != nil {
				count = group.Object["spec"].(map[string]any)["minMember"].(int64)
			}
			if count != tc.count {
				t.Errorf("the group waits for %d pods, want %d", count, tc.count)
			}
			var members []string
			for _, rjob := range in.JobSet.Spec.ReplicatedJobs {
				if rjob.Template.Spec.Template.Labels[coschedulingLabel] == "bert" {
					members = append(members, rjob.Name)
				}
			}
			if diff := cmp.Diff(tc.members, members); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoliciesWithoutAGroup(t *testing.T) {
	for name, policy := range map[string]*v1alpha1.PodGroupPolicy{"none": nil, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			if group, errs := Build(input(policy, job("node", 1))); group != nil || len(errs) > 0 {
				t.Errorf("got %v, %v", group, errs)
			}
		})
	}
	both := coscheduling()
	both.Volcano = &v1alpha1.VolcanoPodGroupPolicySource{}
	if group, errs := Build(input(both, job("node", 1))); group != nil || len(errs) != 1 {
		t.Errorf("two schedulers: got %v, %v", group, errs)
	}
}

func TestRequestsOfAPod(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	c := func(pairs ...string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
	}
	sidecar := func(pairs ...string) corev1.Container {
		container := c(pairs...)
		container.RestartPolicy = always
		return container
	}
	limited := corev1.Container{Resources: corev1.ResourceRequirements{Limits: list("cpu", "4", "nvidia.com/gpu", "8"), Requests: list("cpu", "2")}}
	cases := map[string]struct {
		pod  corev1.PodSpec
		want corev1.ResourceList
	}{
		"containers add up":                     {corev1.PodSpec{Containers: []corev1.Container{c("cpu", "1"), c("cpu", "2", "memory", "1Gi")}}, list("cpu", "3", "memory", "1Gi")},
		"a limit stands for a missing request":  {corev1.PodSpec{Containers: []corev1.Container{limited}}, list("cpu", "2", "nvidia.com/gpu", "8")},
		"the largest init container if larger":  {corev1.PodSpec{InitContainers: []corev1.Container{c("cpu", "5"), c("cpu", "3")}, Containers: []corev1.Container{c("cpu", "1")}}, list("cpu", "5")},
		"small init containers do not count":    {corev1.PodSpec{InitContainers: []corev1.Container{c("cpu", "1")}, Containers: []corev1.Container{c("cpu", "2")}}, list("cpu", "2")},
		"a sidecar counts with the containers":  {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("cpu", "1")}, Containers: []corev1.Container{c("cpu", "2")}}, list("cpu", "3")},
		"and with init containers after it":     {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("cpu", "1"), c("cpu", "5")}, Containers: []corev1.Container{c("cpu", "2")}}, list("cpu", "6")},
		"but not with those before it":          {corev1.PodSpec{InitContainers: []corev1.Container{c("cpu", "5"), sidecar("cpu", "1")}, Containers: []corev1.Container{c("cpu", "2")}}, list("cpu", "5")},
		"the overhead of the pod":               {corev1.PodSpec{Containers: []corev1.Container{c("cpu", "1")}, Overhead: list("cpu", "250m", "memory", "64Mi")}, list("cpu", "1250m", "memory", "64Mi")},
		"requests of the pod as a whole":        {corev1.PodSpec{Containers: []corev1.Container{c("cpu", "1")}, Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3"), Limits: list("cpu", "4", "memory", "1Gi")}}, list("cpu", "3", "memory", "1Gi")},
		"of which GPUs cannot be one":           {corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("nvidia.com/gpu", "3"), Limits: list("nvidia.com/gpu", "3")}}, list()},
		"limits of the pod when none is wanted": {corev1.PodSpec{Containers: []corev1.Container{c("cpu", "1")}, Resources: &corev1.ResourceRequirements{Limits: list("cpu", "4", "hugepages-2Mi", "2Mi")}}, list("cpu", "1", "hugepages-2Mi", "2Mi")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			if diff := cmp.Diff(tc.want, podRequests(&tc.pod)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &tc.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNothingIsNoMinimum(t *testing.T) {
	rjob := job("node", 2)
	rjob.Template.Spec.Template.Spec.Containers[0].Resources.Requests = list("cpu", "0")
	group, _ := Build(input(coscheduling(), rjob))
	if diff := cmp.Diff(map[string]any{"minMember": int64(2), "scheduleTimeoutSeconds": int64(60)}, group.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
