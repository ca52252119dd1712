package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// mpiInput is a launcher `eval` and the workers `node`; the policy says nothing.
func mpiInput(change ...func(*Input)) Input {
	return input(append([]func(*Input){func(in *Input) {
		in.UID = "1234567890"
		in.Policy = &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{MPI: &v1alpha1.MPIMLPolicySource{}}}
		in.TrainerJob = &in.Spec.ReplicatedJobs[0]
		in.Node = &in.TrainerJob.Template.Spec.Template.Spec.Containers[0]
	}}, change...)...)
}

func launcherAsNode(in *Input) { in.Policy.MPI.RunLauncherAsNode = ptr.To(true) }

func workersOf(in *Input) *corev1.Container {
	return &in.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec.Containers[0]
}

func TestHostfile(t *testing.T) {
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
	}
	cases := map[string]struct {
		in    Input
		want  string
		slots string
	}{
		"the workers": {mpiInput(), "bert-node-0-0.bert slots=1\nbert-node-0-1.bert slots=1\n", "1"},
		"the launcher before the workers": {mpiInput(launcherAsNode),
			"bert-eval-0-0.bert slots=1\nbert-node-0-0.bert slots=1\n", "1"},
		"the launcher alone": {mpiInput(launcherAsNode, func(in *Input) { in.Nodes = 1 }), "bert-eval-0-0.bert slots=1\n", "1"},
		"in a subdomain of the template": {mpiInput(func(in *Input) { in.Nodes, in.Spec.Network = 1, &jobsetv1alpha2.Network{Subdomain: "net"} }),
			"bert-node-0-0.net slots=1\n", "1"},
		"the user's number of processes": {mpiInput(func(in *Input) {
			in.Nodes, in.Trainer, in.Policy.MPI.NumProcPerNode = 1, &v1alpha1.Trainer{NumProcPerNode: ptr.To[int32](1)}, ptr.To[int32](5)
			workersOf(in).Resources.Limits = gpus("4")
		}), "bert-node-0-0.bert slots=1\n", "1"},
		"the runtime's number of processes": {mpiInput(func(in *Input) {
			in.Nodes, in.Policy.MPI.NumProcPerNode = 1, ptr.To[int32](5)
			workersOf(in).Resources.Limits = gpus("4")
		}), "bert-node-0-0.bert slots=5\n", "5"},
		"one process a GPU of the workers": {mpiInput(func(in *Input) {
			in.Nodes, in.Policy.MPI.NumProcPerNode = 1, ptr.To[int32](1)
			workersOf(in).Resources.Limits = gpus("4")
		}), "bert-node-0-0.bert slots=4\n", "4"},
		"one process a GPU of a launcher alone": {mpiInput(launcherAsNode, func(in *Input) {
			in.Nodes, in.Node.Resources.Limits = 1, gpus("8")
		}), "bert-eval-0-0.bert slots=8\n", "8"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff([]Files{{Name: "bert-mpi-hostfile", Data: map[string]string{"hostfile": tc.want}}}, out.ConfigMaps); diff != "" {
				t.Errorf("hostfile (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&Keys{Name: "bert-mpi-ssh-12345678", Kind: KeysSSH}, out.Keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			env := []corev1.EnvVar{
				{Name: "OMPI_MCA_orte_default_hostfile", Value: "/etc/mpi/hostfile"},
				{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "true"},
				{Name: "OMPI_MCA_orte_set_default_slots", Value: tc.slots},
				{Name: "OMPI_MCA_plm_rsh_args", Value: "-o ConnectionAttempts=10"},
				{Name: "PRTE_MCA_prte_default_hostfile", Value: "/etc/mpi/hostfile"},
				{Name: "PRTE_MCA_prte_keep_fqdn_hostnames", Value: "true"},
				{Name: "PRTE_MCA_prte_set_default_slots", Value: tc.slots},
				{Name: "PRTE_MCA_plm_ssh_args", Value: "-o ConnectionAttempts=10"},
			}
			if diff := cmp.Diff(env, out.Containers[0].Env); diff != "" {
				t.Errorf("variables of the launcher (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichJobsOfMPIRemain(t *testing.T) {
	inOrder := func(in *Input) {
		in.Spec.StartupPolicy = &jobsetv1alpha2.StartupPolicy{StartupPolicyOrder: jobsetv1alpha2.InOrder}
	}
	waits := func(in *Input) { in.TrainerJob.DependsOn = []jobsetv1alpha2.DependsOn{{Name: "node", Status: "Ready"}} }
	cases := map[string]struct {
		in      Input
		counts  map[string]int32
		removed []string
		gang    string
	}{
		"one launcher and a worker a node":            {mpiInput(), map[string]int32{"eval": 1, "node": 2}, nil, ""},
		"a launcher that is a node takes one of them": {mpiInput(launcherAsNode), map[string]int32{"eval": 1, "node": 1}, nil, ""},
		"no worker is left":                           {mpiInput(launcherAsNode, func(in *Input) { in.Nodes = 1 }), map[string]int32{"eval": 1}, []string{"node"}, ""},
		"no worker was ever there": {mpiInput(launcherAsNode, func(in *Input) {
			in.Nodes, in.Spec.ReplicatedJobs = 1, in.Spec.ReplicatedJobs[:1]
		}), map[string]int32{"eval": 1}, []string{"node"}, ""},
		"the launcher waits for its workers":     {mpiInput(waits), map[string]int32{"eval": 1, "node": 2}, nil, "node"},
		"all jobs start one after the other":     {mpiInput(inOrder), map[string]int32{"eval": 1, "node": 2}, nil, "node"},
		"a launcher alone waits for nobody else": {mpiInput(launcherAsNode, waits, func(in *Input) { in.Nodes = 1 }), map[string]int32{"eval": 1}, []string{"node"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errs := Build(tc.in)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			counts := map[string]int32{}
			for _, pods := range out.Pods {
				counts[pods.ReplicatedJob] = *pods.Count
			}
			if diff := cmp.Diff(tc.counts, counts); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.removed, out.Removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if out.Gang != tc.gang {
				t.Errorf("the gang is %q, want %q", out.Gang, tc.gang)
			}
		})
	}
}

func TestMPIThatCannotBeBuilt(t *testing.T) {
	nonIndexed := ptr.To(batchv1.NonIndexedCompletion)
	const jobs = "spec.template.spec.replicatedJobs"
	cases := map[string]struct {
		in   Input
		want []string
	}{
		"another implementation": {mpiInput(func(in *Input) { in.Policy.MPI.MPIImplementation = ptr.To[v1alpha1.MPIImplementation]("MPICH") }),
			[]string{`spec.mlPolicy.mpi.mpiImplementation: Unsupported value: "MPICH": supported values: "OpenMPI"`}},
		"no nodes": {mpiInput(func(in *Input) { in.Nodes = 0 }), []string{`spec.trainer.numNodes: Invalid value: 0: MPI needs at least one node: give 1 or more`}},
		"more nodes than a hostfile can name": {mpiInput(func(in *Input) { in.Nodes = 2_000_000_000 }),
			[]string{`spec.trainer.numNodes: Invalid value: 2000000000: the hostfile would take 72000000000 bytes of at most 1048576: use fewer nodes`}},
		"no workers in the template": {mpiInput(func(in *Input) { in.Spec.ReplicatedJobs = in.Spec.ReplicatedJobs[:1] }),
			[]string{jobs + `: Not found: "node": 2 workers are to be started: add a replicatedJob of this name that runs sshd`}},
		"workers without their container": {mpiInput(func(in *Input) { workersOf(in).Name = "sshd" }),
			[]string{jobs + `[node].template.spec.template.spec.containers: Not found: "node": the workers must have a container of this name that runs sshd (they have: sshd, proxy): give the one that does this name`}},
		"workers without host names": {mpiInput(func(in *Input) { in.Spec.Network = &jobsetv1alpha2.Network{EnableDNSHostnames: ptr.To(false)} }),
			[]string{`spec.template.spec.network.enableDNSHostnames: Invalid value: false: the launcher finds the workers by host name: set true or leave the field out`}},
		"pods without an index": {mpiInput(func(in *Input) {
			in.Spec.ReplicatedJobs[0].Template.Spec.CompletionMode, in.Spec.ReplicatedJobs[1].Template.Spec.CompletionMode = nonIndexed, nonIndexed
		}), []string{
			jobs + `[eval].template.spec.completionMode: Invalid value: "NonIndexed": the nodes are found by their completion index: set Indexed or leave the field out`,
			jobs + `[node].template.spec.completionMode: Invalid value: "NonIndexed": the nodes are found by their completion index: set Indexed or leave the field out`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(tc.in)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeersOfTheTrainingContainer(t *testing.T) {
	in := mpiInput()
	cases := map[string]struct {
		in   Input
		want []*corev1.Container
	}{
		"MPI has its workers":      {in, []*corev1.Container{workersOf(&in)}},
		"torch has none":           {input(), nil},
		"nor has a job without it": {input(withPolicy(nil)), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Peers(tc.in)
			if len(got) != len(tc.want) || len(got) == 1 && got[0] != tc.want[0] {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
