package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// admitted is what the API server makes of a rendered JobSet.
func admitted(js *jobsetv1alpha2.JobSet) *jobsetv1alpha2.JobSet {
	live := js.DeepCopy()
	live.ResourceVersion, live.UID, live.Generation = "7", "u2", 1
	live.Spec.SuccessPolicy = &jobsetv1alpha2.SuccessPolicy{Operator: jobsetv1alpha2.OperatorAll}
	for i := range live.Spec.ReplicatedJobs {
		live.Spec.ReplicatedJobs[i].GroupName = "default"
		podOf(&live.Spec.ReplicatedJobs[i]).RestartPolicy = corev1.RestartPolicyOnFailure
	}
	live.Status.Restarts = 1
	return live
}

func TestUpdateSuspended(t *testing.T) {
	kueue := v1alpha1.PodTemplatePatch{
		Metadata: &metav1.ObjectMeta{Labels: map[string]string{"podset": "node"}, Annotations: map[string]string{"workload": "w"}},
		Spec: &v1alpha1.PodSpecPatch{
			NodeSelector:    map[string]string{"pool": "a"},
			Tolerations:     []corev1.Toleration{{Key: "spot", TolerationSeconds: ptr.To[int64](9)}},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "topology"}},
		},
	}
	without := func(f func(*v1alpha1.PodTemplatePatch)) *v1alpha1.TrainJob {
		patch := kueue.DeepCopy()
		f(patch)
		return trainJob(withPodPatch("node", *patch))
	}
	admittedWith := trainJob(withPodPatch("node", kueue))
	cases := map[string]struct {
		before, after *v1alpha1.TrainJob
		removed       []string
	}{
		"nothing changes":         {admittedWith, admittedWith, nil},
		"a patch is filled":       {trainJob(), admittedWith, nil},
		"a patch is emptied":      {admittedWith, trainJob(), []string{"node"}},
		"a value changes":         {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Spec.NodeSelector["pool"] = "b" }), nil},
		"a label goes":            {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Metadata.Labels = nil }), []string{"node"}},
		"an annotation goes":      {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Metadata.Annotations = nil }), []string{"node"}},
		"a node selector goes":    {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Spec.NodeSelector = map[string]string{"x": "y"} }), []string{"node"}},
		"a toleration goes":       {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Spec.Tolerations = nil }), []string{"node"}},
		"a toleration changes":    {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](8) }), []string{"node"}},
		"a scheduling gate goes":  {admittedWith, without(func(p *v1alpha1.PodTemplatePatch) { p.Spec.SchedulingGates = nil }), []string{"node"}},
		"another job is patched":  {trainJob(), trainJob(withPodPatch("model-initializer", kueue)), nil},
		"a patch of another goes": {trainJob(withPodPatch("model-initializer", kueue)), trainJob(), []string{"model-initializer"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := admitted(mustRender(t, tc.before, initRuntime()).JobSet)
			desired := mustRender(t, tc.after, initRuntime()).JobSet
			liveBefore, desiredBefore := live.DeepCopy(), desired.DeepCopy()

			got, removed := UpdateSuspended(live, desired)
			if diff := cmp.Diff(admitted(desired), got); diff != "" {
				t.Errorf("updated JobSet (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.removed, removed); diff != "" {
				t.Errorf("removed from (-want +got):\n%s", diff)
			}
			scribble(got)
			if diff := cmp.Diff([]any{liveBefore, desiredBefore}, []any{live, desired}); diff != "" {
				t.Errorf("an input was written to, or shares memory with the output (-before +after):\n%s", diff)
			}
		})
	}
}

func TestUpdateSuspendedChangesNothingElse(t *testing.T) {
	live := admitted(mustRender(t, trainJob(), initRuntime()).JobSet)
	live.Annotations = nil // as an older controller left it
	extra := replicatedJob("extra", "", "main")
	extra.Template.Spec.Template.Labels = map[string]string{"keep": "me"}
	live.Spec.ReplicatedJobs = append(live.Spec.ReplicatedJobs, extra)

	desired := mustRender(t, trainJob(func(s *v1alpha1.TrainJobSpec) { s.Suspend = ptr.To(true) }, withTrainer(v1alpha1.Trainer{
		Image: ptr.To("other"), NumNodes: ptr.To[int32](9),
	})), initRuntime()).JobSet

	want := live.DeepCopy()
	want.Annotations = map[string]string{v1alpha1.AnnotationPatchesHash: PatchesHash(nil)}
	got, removed := UpdateSuspended(live, desired)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updated JobSet (-want +got):\n%s", diff)
	}
	if len(removed) > 0 {
		t.Errorf("removed from %v", removed)
	}
}

func TestUnapplied(t *testing.T) {
	everything := func(suffix string) v1alpha1.PodTemplatePatch {
		return v1alpha1.PodTemplatePatch{Metadata: &metav1.ObjectMeta{Labels: map[string]string{"pod": suffix}}, Spec: &v1alpha1.PodSpecPatch{
			ServiceAccountName: ptr.To("account" + suffix),
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "secret" + suffix}},
			SecurityContext:    &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(len(suffix)))},
			NodeSelector:       map[string]string{"pool": suffix},
			Tolerations:        []corev1.Toleration{{Key: suffix}},
			SchedulingGates:    []corev1.PodSchedulingGate{{Name: suffix}},
			Affinity:           &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: int32(len(suffix))}}}},
			Volumes:            []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c" + suffix}}}}},
			InitContainers:     []v1alpha1.ContainerPatch{{Name: "wait", Env: []corev1.EnvVar{{Name: "A", Value: "a" + suffix}}}},
			Containers: []v1alpha1.ContainerPatch{{Name: "node", SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To(int64(len(suffix)))},
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "s" + suffix}}}},
			TerminationGracePeriodSeconds: ptr.To(int64(len(suffix))),
		}}
	}
	withMeta := func(job *v1alpha1.TrainJob) *v1alpha1.TrainJob {
		template := job.Spec.RuntimePatches[0].TrainingRuntimeSpec.Template
		template.Metadata = &metav1.ObjectMeta{Labels: map[string]string{"l": "1"}}
		template.Spec.ReplicatedJobs[0].Template.Metadata = &metav1.ObjectMeta{Annotations: map[string]string{"a": "1"}}
		return job
	}
	allOfThePod := []string{"replicatedJobs[node].serviceAccountName", "replicatedJobs[node].imagePullSecrets",
		"replicatedJobs[node].securityContext", "replicatedJobs[node].affinity",
		"replicatedJobs[node].terminationGracePeriodSeconds", "replicatedJobs[node].volumes[v]",
		"replicatedJobs[node].initContainers[wait].env[A]", "replicatedJobs[node].containers[node].volumeMounts[/v]",
		"replicatedJobs[node].containers[node].securityContext"}
	cases := map[string]struct {
		before, after *v1alpha1.TrainJob
		want          []string
	}{
		"nothing changes": {withMeta(trainJob(withPodPatch("node", everything("x")))), withMeta(trainJob(withPodPatch("node", everything("x")))), nil},
		"everything is new": {trainJob(), withMeta(trainJob(withPodPatch("node", everything("x")))),
			append([]string{"metadata.labels", "replicatedJobs[node].metadata.annotations"}, allOfThePod...)},
		"everything changes, by two managers": {trainJob(withPodPatch("node", everything("x"))),
			trainJob(withPodPatch("node", everything("xy")), withPodPatch("node", everything("xyz"))), allOfThePod},
		"only what may change does": {trainJob(), trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{NodeSelector: map[string]string{"a": "b"}})), nil},
		"an empty entry":            {trainJob(), trainJob(func(s *v1alpha1.TrainJobSpec) { s.RuntimePatches = []v1alpha1.RuntimePatch{{Manager: "m"}} }), nil},
		"annotations of the JobSet": {trainJob(), trainJob(func(s *v1alpha1.TrainJobSpec) {
			s.RuntimePatches = []v1alpha1.RuntimePatch{{TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{
				Template: &v1alpha1.JobSetTemplatePatch{Metadata: &metav1.ObjectMeta{Annotations: map[string]string{"a": "1"}}}}}}
		}), []string{"metadata.annotations"}},
	}
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		podOf(&spec.Template.Spec.ReplicatedJobs[0]).InitContainers = []corev1.Container{{Name: "wait"}}
	})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := admitted(mustRender(t, tc.before, runtime).JobSet)
			got := Unapplied(tc.after.Spec.RuntimePatches, live, mustRender(t, tc.after, runtime).JobSet)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unapplied (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnappliedPassesOverWhatTheLiveJobSetDoesNotHave(t *testing.T) {
	job := trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{Containers: []v1alpha1.ContainerPatch{{Name: "node", Env: []corev1.EnvVar{{Name: "A"}}}}}))
	desired := mustRender(t, job, torchRuntime()).JobSet
	live := admitted(desired)
	podOf(&live.Spec.ReplicatedJobs[0]).Containers = nil
	if got := Unapplied(job.Spec.RuntimePatches, live, desired); len(got) > 0 {
		t.Errorf("unapplied %v", got)
	}
	live.Spec.ReplicatedJobs = nil
	if got := Unapplied(job.Spec.RuntimePatches, live, desired); len(got) > 0 {
		t.Errorf("unapplied %v", got)
	}
}
