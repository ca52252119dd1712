package render

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestPatchesOfPods(t *testing.T) {
	claim := func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
	}
	container := func(c corev1.Container) corev1.PodSpec {
		c.Name, c.Image = "node", "runtime"
		return corev1.PodSpec{Containers: []corev1.Container{c}}
	}
	patch := func(p v1alpha1.ContainerPatch) v1alpha1.PodSpecPatch {
		p.Name = "node"
		return v1alpha1.PodSpecPatch{Containers: []v1alpha1.ContainerPatch{p}}
	}
	gpu, spot := corev1.Toleration{Key: "gpu"}, corev1.Toleration{Key: "spot", TolerationSeconds: ptr.To[int64](5)}

	cases := map[string]struct {
		base  corev1.PodSpec
		patch v1alpha1.PodSpecPatch
		want  corev1.PodSpec
	}{
		"node selectors are merged per key": {
			corev1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "1"}},
			v1alpha1.PodSpecPatch{NodeSelector: map[string]string{"b": "2", "c": "2"}},
			corev1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "2", "c": "2"}}},
		"tolerations add up, equal ones once": {
			corev1.PodSpec{Tolerations: []corev1.Toleration{gpu, spot}},
			v1alpha1.PodSpecPatch{Tolerations: []corev1.Toleration{*spot.DeepCopy(), {Key: "gpu", Operator: corev1.TolerationOpExists}}},
			corev1.PodSpec{Tolerations: []corev1.Toleration{gpu, spot, {Key: "gpu", Operator: corev1.TolerationOpExists}}}},
		"scheduling gates and pull secrets add up by name": {
			corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "a"}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}}},
			v1alpha1.PodSpecPatch{SchedulingGates: []corev1.PodSchedulingGate{{Name: "b"}, {Name: "a"}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}},
			corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}}},
		"a service account replaces the old one under both its names": {
			corev1.PodSpec{ServiceAccountName: "a", DeprecatedServiceAccount: "a"},
			v1alpha1.PodSpecPatch{ServiceAccountName: ptr.To("b")},
			corev1.PodSpec{ServiceAccountName: "b"}},
		"the time to end is replaced": {
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)},
			v1alpha1.PodSpecPatch{TerminationGracePeriodSeconds: ptr.To[int64](600)},
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](600)}},
		"no time to end is a time too": {
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)},
			v1alpha1.PodSpecPatch{TerminationGracePeriodSeconds: ptr.To[int64](0)},
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0)}},
		"without a word about it the time to end stays": {
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)},
			v1alpha1.PodSpecPatch{},
			corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)}},
		"a security context is merged by field": {
			corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1), SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r"}}},
			v1alpha1.PodSpecPatch{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SELinuxOptions: &corev1.SELinuxOptions{Role: "s"}, SupplementalGroups: []int64{}}},
			corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1), RunAsNonRoot: ptr.To(true), SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "s"}}}},
		"a seccomp profile is replaced as a whole": {
			corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("p")}}},
			v1alpha1.PodSpecPatch{SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}},
			corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}},
		"a security context where there was none": {
			corev1.PodSpec{},
			v1alpha1.PodSpecPatch{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}},
			corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}}},
		"an affinity is merged by kind": {
			corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}}},
			v1alpha1.PodSpecPatch{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "host"}}}}},
			corev1.PodSpec{Affinity: &corev1.Affinity{
				PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "host"}}}}}},
		"a volume of the same kind is changed, another is added": {
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("old", true)}, {Name: "other"}}},
			v1alpha1.PodSpecPatch{Volumes: []corev1.Volume{{Name: "new", VolumeSource: claim("new", false)}, {Name: "data", VolumeSource: claim("mine", false)}}},
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("mine", true)}, {Name: "other"}, {Name: "new", VolumeSource: claim("new", false)}}}},
		"a volume of another kind is replaced": {
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("old", true)}}},
			v1alpha1.PodSpecPatch{Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}}}},
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}}}}},
		"the size of a volume and its attributes": {
			corev1.PodSpec{Volumes: []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr.To(resource.MustParse("1Gi"))}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"a": "1", "b": "1"}}}}}},
			v1alpha1.PodSpecPatch{Volumes: []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("2Gi"))}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{VolumeAttributes: map[string]string{"b": "2"}}}}}},
			corev1.PodSpec{Volumes: []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr.To(resource.MustParse("2Gi"))}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"a": "1", "b": "2"}}}}}}},
		"a volume without a source changes nothing": {
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("old", true)}}},
			v1alpha1.PodSpecPatch{Volumes: []corev1.Volume{{Name: "data"}}},
			corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("old", true)}}}},
		"variables are merged by name": {
			container(corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}}),
			patch(v1alpha1.ContainerPatch{Env: []corev1.EnvVar{{Name: "C", Value: "2"}, {Name: "A", Value: "2"}}}),
			container(corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "2"}, {Name: "B", Value: "1"}, {Name: "C", Value: "2"}}})},
		"mounts are merged by path, so that a volume may be mounted twice": {
			container(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/a", SubPath: "x"}}}),
			patch(v1alpha1.ContainerPatch{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/b"}, {Name: "data", MountPath: "/a", ReadOnly: true}}}),
			container(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/a", SubPath: "x", ReadOnly: true}, {Name: "data", MountPath: "/b"}}})},
		"another volume at the same path replaces the mount": {
			container(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/a", SubPath: "x"}}}),
			patch(v1alpha1.ContainerPatch{VolumeMounts: []corev1.VolumeMount{{Name: "mine", MountPath: "/a"}}}),
			container(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "mine", MountPath: "/a"}}})},
		"a container's security context is merged by field": {
			container(corev1.Container{SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"A"}, Drop: []corev1.Capability{"D"}}}}),
			patch(v1alpha1.ContainerPatch{SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"B"}}}}),
			container(corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"B"}, Drop: []corev1.Capability{"D"}}}})},
		"init containers keep their order": {
			corev1.PodSpec{InitContainers: []corev1.Container{{Name: "z"}, {Name: "a"}, {Name: "m"}}},
			v1alpha1.PodSpecPatch{InitContainers: []v1alpha1.ContainerPatch{{Name: "m", Env: []corev1.EnvVar{{Name: "A"}}}, {Name: "z"}}},
			corev1.PodSpec{InitContainers: []corev1.Container{{Name: "z"}, {Name: "a"}, {Name: "m", Env: []corev1.EnvVar{{Name: "A"}}}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.base.Containers == nil {
				tc.base.Containers, tc.want.Containers = []corev1.Container{{Name: "node"}}, []corev1.Container{{Name: "node"}}
			}
			runtime := torchRuntime(withoutPolicy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				*podOf(&spec.Template.Spec.ReplicatedJobs[0]) = tc.base
			})
			got := trainerPod(t, mustRender(t, trainJob(withPodSpecPatch(tc.patch)), runtime))
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchesAreAppliedInListOrder(t *testing.T) {
	pool := func(name string) func(*v1alpha1.TrainJobSpec) {
		return withPodSpecPatch(v1alpha1.PodSpecPatch{NodeSelector: map[string]string{"pool": name}})
	}
	for want, job := range map[string]*v1alpha1.TrainJob{
		"b": trainJob(pool("a"), pool("b")),
		"a": trainJob(pool("b"), pool("a")),
	} {
		got := trainerPod(t, mustRender(t, job, torchRuntime())).NodeSelector
		if diff := cmp.Diff(map[string]string{"pool": want}, got); diff != "" {
			t.Errorf("node selector (-want +got):\n%s", diff)
		}
	}
}

func TestTheTrainerComesAfterThePatches(t *testing.T) {
	job := trainJob(
		withPodSpecPatch(v1alpha1.PodSpecPatch{Containers: []v1alpha1.ContainerPatch{{Name: "node", Env: []corev1.EnvVar{{Name: "A", Value: "patch"}}}}}),
		withTrainer(v1alpha1.Trainer{Env: []corev1.EnvVar{{Name: "A", Value: "trainer"}}}))
	got := trainerPod(t, mustRender(t, job, torchRuntime(withoutPolicy))).Containers[0].Env
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "trainer"}}, got); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestLabelsAndAnnotationsOfPatchesGoWhereTheyAreWritten(t *testing.T) {
	meta := func(name string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: "ignored", Labels: map[string]string{name: "label"}, Annotations: map[string]string{name: "annotation"}}
	}
	job := trainJob(func(spec *v1alpha1.TrainJobSpec) {
		spec.RuntimePatches = []v1alpha1.RuntimePatch{{Manager: "m", TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{
			Template: &v1alpha1.JobSetTemplatePatch{Metadata: meta("jobset"), Spec: &v1alpha1.JobSetSpecPatch{
				ReplicatedJobs: []v1alpha1.ReplicatedJobPatch{{Name: "node", Template: &v1alpha1.JobTemplatePatch{
					Metadata: meta("job"),
					Spec:     &v1alpha1.JobSpecPatch{Template: &v1alpha1.PodTemplatePatch{Metadata: meta("pod")}},
				}}},
			}}}}}
	})
	js := mustRender(t, job, torchRuntime()).JobSet
	template := js.Spec.ReplicatedJobs[0].Template
	type pair struct{ labels, annotations map[string]string }
	want := []pair{
		{map[string]string{"jobset": "label", v1alpha1.LabelTrainJobName: "bert"},
			map[string]string{"jobset": "annotation", v1alpha1.AnnotationPatchesHash: PatchesHash(job.Spec.RuntimePatches)}},
		{map[string]string{"job": "label", v1alpha1.LabelAncestorStep: "trainer"}, map[string]string{"job": "annotation"}},
		{map[string]string{"pod": "label"}, map[string]string{"pod": "annotation"}},
	}
	got := []pair{
		{js.Labels, js.Annotations}, {template.Labels, template.Annotations},
		{template.Spec.Template.Labels, template.Spec.Template.Annotations},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pair{})); diff != "" {
		t.Errorf("JobSet, Job, pod (-want +got):\n%s", diff)
	}
}

func TestPatchesThatSayNothingChangeNothing(t *testing.T) {
	spec := func(s *v1alpha1.TrainingRuntimeSpecPatch) *v1alpha1.TrainJob {
		return trainJob(func(spec *v1alpha1.TrainJobSpec) {
			spec.RuntimePatches = []v1alpha1.RuntimePatch{{Manager: "kueue.x-k8s.io/manager", TrainingRuntimeSpec: s}}
		})
	}
	template := func(t *v1alpha1.JobTemplatePatch) *v1alpha1.TrainJob {
		return spec(&v1alpha1.TrainingRuntimeSpecPatch{Template: &v1alpha1.JobSetTemplatePatch{
			Spec: &v1alpha1.JobSetSpecPatch{ReplicatedJobs: []v1alpha1.ReplicatedJobPatch{{Name: "node", Template: t}}}}})
	}
	cases := map[string]*v1alpha1.TrainJob{
		"only a manager":              spec(nil),
		"no template":                 spec(&v1alpha1.TrainingRuntimeSpecPatch{}),
		"an empty template":           spec(&v1alpha1.TrainingRuntimeSpecPatch{Template: &v1alpha1.JobSetTemplatePatch{}}),
		"only a metadata name":        spec(&v1alpha1.TrainingRuntimeSpecPatch{Template: &v1alpha1.JobSetTemplatePatch{Metadata: &metav1.ObjectMeta{Name: "x"}, Spec: &v1alpha1.JobSetSpecPatch{}}}),
		"a job without a template":    template(nil),
		"a job template without spec": template(&v1alpha1.JobTemplatePatch{}),
		"no pod template":             template(&v1alpha1.JobTemplatePatch{Spec: &v1alpha1.JobSpecPatch{}}),
		"no pod spec":                 template(&v1alpha1.JobTemplatePatch{Spec: &v1alpha1.JobSpecPatch{Template: &v1alpha1.PodTemplatePatch{}}}),
		"an empty pod spec":           template(&v1alpha1.JobTemplatePatch{Spec: &v1alpha1.JobSpecPatch{Template: &v1alpha1.PodTemplatePatch{Spec: &v1alpha1.PodSpecPatch{ServiceAccountName: ptr.To("")}}}}),
	}
	want := mustRender(t, trainJob(), torchRuntime())
	for name, job := range cases {
		t.Run(name, func(t *testing.T) {
			got := mustRender(t, job, torchRuntime())
			if diff := cmp.Diff(want.JobSet.Spec, got.JobSet.Spec); diff != "" {
				t.Errorf("spec (-without +with):\n%s", diff)
			}
		})
	}
}

func TestPatchErrors(t *testing.T) {
	const prefix = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
	stepLabel := func(value string) *v1alpha1.TrainJob {
		job := trainJob(withPodPatch("node", v1alpha1.PodTemplatePatch{}))
		job.Spec.RuntimePatches[0].TrainingRuntimeSpec.Template.Spec.ReplicatedJobs[0].Template.Metadata =
			&metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelAncestorStep: value}}
		return job
	}
	cases := map[string]struct {
		job  *v1alpha1.TrainJob
		want []string
	}{
		"a job the runtime does not have": {trainJob(withPodPatch("worker", v1alpha1.PodTemplatePatch{})),
			[]string{prefix + `.name: Not found: "worker": name a replicatedJob of the runtime (node) or remove the entry`}},
		"containers the runtime does not have": {
			trainJob(withPodSpecPatch(v1alpha1.PodSpecPatch{InitContainers: []v1alpha1.ContainerPatch{{Name: "node"}}, Containers: []v1alpha1.ContainerPatch{{Name: "node"}, {Name: "x"}}})),
			[]string{
				prefix + `.template.spec.template.spec.initContainers[0].name: Not found: "node": the runtime has none there: leave it out; in a job that exists, remove the patch while the job is suspended and add it anew`,
				prefix + `.template.spec.template.spec.containers[1].name: Not found: "x": name one that the runtime has there (node); in a job that exists, remove the patch while the job is suspended and add it anew`,
			}},
		"another step for a job": {stepLabel("model-initializer"),
			[]string{prefix + `.template.metadata.labels[trainer.kubeflow.org/trainjob-ancestor-step]: Invalid value: "model-initializer": the label is the runtime's to set: remove it from the patch`}},
		"the same step for a job is none": {stepLabel("trainer"), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(tc.job, torchRuntime())
			var got []string
			if rendered := (*Error)(nil); errors.As(err, &rendered) {
				for _, e := range rendered.Errs {
					got = append(got, e.Error())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
