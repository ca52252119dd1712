package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func TestTheTrainerChangesTheTrainingContainerOnly(t *testing.T) {
	base := corev1.Container{Name: "node", Image: "runtime", Command: []string{"run"}, Args: []string{"--fast"}}
	cases := map[string]struct {
		trainer *v1alpha1.Trainer
		want    corev1.Container
	}{
		"none leaves it as it is":              {nil, base},
		"an empty one leaves it as it is":      {&v1alpha1.Trainer{}, base},
		"an image replaces the image":          {&v1alpha1.Trainer{Image: ptr.To("mine")}, corev1.Container{Name: "node", Image: "mine", Command: []string{"run"}, Args: []string{"--fast"}}},
		"an empty image is none":               {&v1alpha1.Trainer{Image: ptr.To("")}, base},
		"a command replaces the command only":  {&v1alpha1.Trainer{Command: []string{"mine"}}, corev1.Container{Name: "node", Image: "runtime", Command: []string{"mine"}, Args: []string{"--fast"}}},
		"arguments replace the arguments only": {&v1alpha1.Trainer{Args: []string{"mine"}}, corev1.Container{Name: "node", Image: "runtime", Command: []string{"run"}, Args: []string{"mine"}}},
		"an empty list clears":                 {&v1alpha1.Trainer{Args: []string{}}, corev1.Container{Name: "node", Image: "runtime", Command: []string{"run"}, Args: []string{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sidecar := corev1.Container{Name: "sidecar", Image: "runtime"}
			runtime := torchRuntime(withoutPolicy, func(spec *v1alpha1.TrainingRuntimeSpec) {
				*node(spec) = base
				podOf(&spec.Template.Spec.ReplicatedJobs[0]).Containers = []corev1.Container{sidecar, base}
			})
			got := trainerPod(t, mustRender(t, trainJob(func(s *v1alpha1.TrainJobSpec) { s.Trainer = tc.trainer }), runtime))
			if diff := cmp.Diff([]corev1.Container{sidecar, tc.want}, got.Containers); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvOfTheTrainingContainer(t *testing.T) {
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k", Optional: ptr.To(true)}}
	sources := []corev1.EnvVar{
		{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "RESOURCE", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("1")}}},
		{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k"}}},
		{Name: "SECRET", ValueFrom: secret},
		{Name: "FILE", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}}},
	}
	cases := map[string]struct{ runtime, trainer, want []corev1.EnvVar }{
		"the user's stand behind the runtime's": {
			[]corev1.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "1"}}, []corev1.EnvVar{{Name: "0", Value: "2"}},
			[]corev1.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "1"}, {Name: "0", Value: "2"}}},
		"a name in both has the user's value at the runtime's place": {
			[]corev1.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "1"}}, []corev1.EnvVar{{Name: "B", ValueFrom: secret}},
			[]corev1.EnvVar{{Name: "B", ValueFrom: secret}, {Name: "A", Value: "1"}}},
		"a source gives way to a value": {
			[]corev1.EnvVar{{Name: "A", ValueFrom: secret}}, []corev1.EnvVar{{Name: "A", Value: "2"}},
			[]corev1.EnvVar{{Name: "A", Value: "2"}}},
		"a name the runtime has twice does not hide the user's value": {
			[]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B"}, {Name: "A", Value: "2"}}, []corev1.EnvVar{{Name: "A", Value: "3"}},
			[]corev1.EnvVar{{Name: "A", Value: "3"}, {Name: "B"}}},
		"every kind of source survives": {nil, sources, sources},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := torchRuntime(withoutPolicy, func(spec *v1alpha1.TrainingRuntimeSpec) { node(spec).Env = tc.runtime })
			got := trainerPod(t, mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{Env: tc.trainer})), runtime)).Containers[0].Env
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInjectedVariablesStandFirstAndWin(t *testing.T) {
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		node(spec).Env = []corev1.EnvVar{{Name: "PET_MASTER_PORT", Value: "1"}, {Name: "A", Value: "runtime"}}
	})
	job := trainJob(withTrainer(v1alpha1.Trainer{Env: []corev1.EnvVar{
		{Name: "RDZV", Value: "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)"}, {Name: "PET_NNODES", Value: "9"},
	}}))
	want := []string{"PET_NNODES=2", "PET_NPROC_PER_NODE=1", "PET_NODE_RANK=", "PET_MASTER_ADDR=bert-node-0-0.bert",
		"PET_MASTER_PORT=29500", "A=runtime", "RDZV=$(PET_MASTER_ADDR):$(PET_MASTER_PORT)"}
	var got []string
	for _, env := range trainerPod(t, mustRender(t, job, runtime)).Containers[0].Env {
		got = append(got, env.Name+"="+env.Value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestInitializers(t *testing.T) {
	fromSecret := func(name, prefix string) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	runtime := initRuntime()
	dataset := &podOf(&runtime.Spec.Template.Spec.ReplicatedJobs[0]).Containers[0]
	dataset.Env = []corev1.EnvVar{{Name: "CACHE", Value: "1"}, {Name: "STORAGE_URI", Value: "runtime"}}
	dataset.EnvFrom = []corev1.EnvFromSource{fromSecret("token", "HUB_"), fromSecret("other", "")}

	cases := map[string]struct {
		initializer *v1alpha1.DatasetInitializer
		wantEnv     []corev1.EnvVar
		wantFrom    []corev1.EnvFromSource
	}{
		"unmentioned, it stays as the runtime has it": {nil, dataset.Env, dataset.EnvFrom},
		"empty, it stays as the runtime has it":       {&v1alpha1.DatasetInitializer{}, dataset.Env, dataset.EnvFrom},
		"the URI stands first and wins": {
			&v1alpha1.DatasetInitializer{StorageUri: ptr.To("hf://a/b"), Env: []corev1.EnvVar{{Name: "STORAGE_URI", Value: "x"}, {Name: "NEW", Value: "$(STORAGE_URI)"}}},
			[]corev1.EnvVar{{Name: "STORAGE_URI", Value: "hf://a/b"}, {Name: "CACHE", Value: "1"}, {Name: "NEW", Value: "$(STORAGE_URI)"}}, dataset.EnvFrom},
		"without a URI a variable of that name is like any other": {
			&v1alpha1.DatasetInitializer{Env: []corev1.EnvVar{{Name: "STORAGE_URI", Value: "x"}}},
			[]corev1.EnvVar{{Name: "CACHE", Value: "1"}, {Name: "STORAGE_URI", Value: "x"}}, dataset.EnvFrom},
		"a Secret is added": {
			&v1alpha1.DatasetInitializer{SecretRef: &corev1.LocalObjectReference{Name: "token"}},
			dataset.Env, []corev1.EnvFromSource{fromSecret("token", "HUB_"), fromSecret("other", ""), fromSecret("token", "")}},
		"a Secret that is there is not added again": {
			&v1alpha1.DatasetInitializer{SecretRef: &corev1.LocalObjectReference{Name: "other"}}, dataset.Env, dataset.EnvFrom},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := trainJob(func(s *v1alpha1.TrainJobSpec) { s.Initializer = &v1alpha1.Initializer{Dataset: tc.initializer} })
			got := podOf(&mustRender(t, job, runtime).JobSet.Spec.ReplicatedJobs[0]).Containers[0]
			if diff := cmp.Diff(tc.wantEnv, got.Env); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantFrom, got.EnvFrom); diff != "" {
				t.Errorf("envFrom (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResourcesPerNode(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	type req = corev1.ResourceRequirements
	cases := map[string]struct {
		base req
		over *req
		want req
	}{
		"none changes nothing":              {req{Limits: list("cpu", "2")}, nil, req{Limits: list("cpu", "2")}},
		"into nothing":                      {req{}, &req{Limits: list("cpu", "2"), Requests: list("cpu", "1")}, req{Limits: list("cpu", "2"), Requests: list("cpu", "1")}},
		"only memory leaves the GPUs":       {req{Limits: list("nvidia.com/gpu", "4")}, &req{Requests: list("memory", "8Gi")}, req{Limits: list("nvidia.com/gpu", "4"), Requests: list("memory", "8Gi")}},
		"a higher limit leaves the request": {req{Limits: list("cpu", "2"), Requests: list("cpu", "1")}, &req{Limits: list("cpu", "4")}, req{Limits: list("cpu", "4"), Requests: list("cpu", "1")}},
		"a limit below the request lowers it": {
			req{Limits: list("cpu", "4"), Requests: list("cpu", "4")}, &req{Limits: list("cpu", "2")},
			req{Limits: list("cpu", "2"), Requests: list("cpu", "2")}},
		"a request above the limit raises it": {
			req{Limits: list("cpu", "4"), Requests: list("cpu", "4")}, &req{Requests: list("cpu", "8")},
			req{Limits: list("cpu", "8"), Requests: list("cpu", "8")}},
		"a request below the limit leaves it": {
			req{Limits: list("cpu", "4")}, &req{Requests: list("cpu", "2")},
			req{Limits: list("cpu", "4"), Requests: list("cpu", "2")}},
		"a request adds no limit": {req{}, &req{Requests: list("cpu", "2")}, req{Requests: list("cpu", "2")}},
		"GPUs requested are also the limit": {
			req{}, &req{Requests: list("nvidia.com/gpu", "2")},
			req{Limits: list("nvidia.com/gpu", "2"), Requests: list("nvidia.com/gpu", "2")}},
		"fewer GPUs requested lower the limit": {
			req{Limits: list("nvidia.com/gpu", "4")}, &req{Requests: list("nvidia.com/gpu", "2")},
			req{Limits: list("nvidia.com/gpu", "2"), Requests: list("nvidia.com/gpu", "2")}},
		"more GPUs as limit raise the request": {
			req{Limits: list("nvidia.com/gpu", "4"), Requests: list("nvidia.com/gpu", "4")}, &req{Limits: list("nvidia.com/gpu", "8")},
			req{Limits: list("nvidia.com/gpu", "8"), Requests: list("nvidia.com/gpu", "8")}},
		"what the user says of both sides stays": {
			req{}, &req{Limits: list("cpu", "1"), Requests: list("cpu", "2")}, req{Limits: list("cpu", "1"), Requests: list("cpu", "2")}},
		"claims are merged by name": {
			req{Claims: []corev1.ResourceClaim{{Name: "a"}, {Name: "b"}}}, &req{Claims: []corev1.ResourceClaim{{Name: "c"}, {Name: "a", Request: "r"}}},
			req{Claims: []corev1.ResourceClaim{{Name: "a", Request: "r"}, {Name: "b"}, {Name: "c"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) { node(spec).Resources = tc.base })
			got := trainerPod(t, mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{ResourcesPerNode: tc.over})), runtime)).Containers[0].Resources
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProcessesAreCountedAfterResourcesAreMerged(t *testing.T) {
	runtime := torchRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		node(spec).Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	})
	job := trainJob(withTrainer(v1alpha1.Trainer{ResourcesPerNode: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"memory": resource.MustParse("64Gi")},
	}}))
	got := trainerPod(t, mustRender(t, job, runtime)).Containers[0].Env[1]
	if diff := cmp.Diff(corev1.EnvVar{Name: "PET_NPROC_PER_NODE", Value: "auto"}, got); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}
