package framework

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

func fluxInput(change ...func(*Input)) Input {
	return input(append([]func(*Input){func(in *Input) {
		in.UID = "1234567890"
		in.Policy = &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{Flux: &v1alpha1.FluxMLPolicySource{}}}
	}}, change...)...)
}

func perNode(n int32) func(*Input) {
	return func(in *Input) { in.Policy.Flux.NumProcPerNode = &n }
}

func limits(pairs ...string) func(*Input) {
	return func(in *Input) {
		in.Node.Resources.Limits = corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			in.Node.Resources.Limits[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
	}
}

func TestWhatFluxRuns(t *testing.T) {
	gpus := limits("nvidia.com/gpu", "4", "cpu", "8")
	oneNode := func(in *Input) { in.Nodes = 1 }
	cases := map[string]struct {
		in               Input
		resources, flags string
	}{
		"one process where nothing is said": {fluxInput(), "--cores=0", "-N 2 -n 2"},
		"on one node":                       {fluxInput(oneNode), "--cores=0", "-N 1 -n 1"},
		"one process though with CPUs":      {fluxInput(limits("cpu", "8")), "--cores=0", "-N 2 -n 2"},
		"one process with all GPUs":         {fluxInput(gpus), "--cores=0 --gpus=0-3", "-N 2 -n 2 -g 4"},
		"the runtime's number":              {fluxInput(gpus, perNode(2)), "--cores=0-1 --gpus=0-3", "-N 2 -n 4 -g 2"},
		"more processes than GPUs":          {fluxInput(gpus, perNode(8)), "--cores=0-7 --gpus=0-3", "-N 2 -n 16"},
		"the user's number": {fluxInput(perNode(2), func(in *Input) { in.Trainer = &v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](3)} }),
			"--cores=0-2", "-N 2 -n 6"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			hosts := "bert-node-0-[0-1]"
			if tc.in.Nodes == 1 {
				hosts = "bert-node-0-[0]"
			}
			want := "hosts='" + hosts + "'\nfirst='bert-node-0-0'\nresources='" + tc.resources + "'\nflags='" + tc.flags + "'\n"
			if diff := cmp.Diff(want, out.ConfigMaps[0].Data["job.sh"]); diff != "" {
				t.Errorf("job.sh (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFluxSettingsOfTheTrainingContainer(t *testing.T) {
	out, errs := Build(fluxInput(func(in *Input) {
		in.Spec.Network = &jobsetv1alpha2.Network{Subdomain: "net"}
		in.Node.Env = []corev1.EnvVar{{Name: "FLUX_VIEW_IMAGE", Value: "mine"}, {Name: "FLUX_NETWORK_DEVICE", Value: "ib0"}, {Name: "FLUX_QUEUE_POLICY"}}
		in.Node.VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: "/dev/shm"}}
	}))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if image := out.Pods[0].InitContainers[0].Image; image != "mine" {
		t.Errorf("Flux comes from image %s", image)
	}
	for _, line := range []string{`default_bind = "tcp://ib0:%p"`, `default_connect = "tcp://%h.net:%p"`, `hosts = [{ host = "bert-node-0-[0-1]" }]`, `queue-policy = "fcfs"`} {
		if broker := out.ConfigMaps[0].Data["broker.toml"]; !strings.Contains(broker, "\n"+line+"\n") {
			t.Errorf("broker.toml has no line %s:\n%s", line, broker)
		}
	}
	for _, mount := range out.Containers[0].Mounts {
		if mount.MountPath == "/dev/shm" {
			t.Error("the user's shared memory is replaced")
		}
	}
	if diff := cmp.Diff(&Keys{Name: "bert-flux-curve-12345678", Kind: KeysCurve}, out.Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestFluxThatCannotBeBuilt(t *testing.T) {
	cases := map[string]struct {
		in   Input
		want string
	}{
		"no nodes": {fluxInput(func(in *Input) { in.Nodes = 0 }), `spec.trainer.numNodes: Invalid value: 0: Flux needs at least one node: give 1 or more`},
		"no processes": {fluxInput(perNode(0)),
			`spec.mlPolicy.flux.numProcPerNode: Invalid value: 0: Flux needs at least one process on every node: give 1 or more`},
		"no processes for this job": {fluxInput(func(in *Input) { in.Trainer = &v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](-1)} }),
			`spec.trainer.numProcPerNode: Invalid value: -1: Flux needs at least one process on every node: give 1 or more`},
		"a container that has the installer's name": {fluxInput(func(in *Input) { in.TrainerJob.Template.Spec.Template.Spec.InitContainers[0].Name = "flux-installer" }),
			`spec.template.spec.replicatedJobs[node].template.spec.template.spec.initContainers[flux-installer].name: Invalid value: "flux-installer": Flux adds an init container of this name: rename the runtime's own`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(tc.in)
			if len(errs) != 1 || errs[0].Error() != tc.want {
				t.Errorf("got %v\nwant %s", errs, tc.want)
			}
		})
	}
}
