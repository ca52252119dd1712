package framework

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// KeysSSH is a key pair with which the pods of one job reach each other over SSH.
const KeysSSH KeyKind = "ssh"

// Keys of the Secret with an SSH key pair; that of the private key is the one that
// Secrets of type kubernetes.io/ssh-auth have.
const (
	SSHPrivateKey = corev1.SSHAuthPrivateKey
	SSHPublicKey  = "ssh-publickey"
)

// maxFileBytes is the most that a ConfigMap's data can hold.
const maxFileBytes = 1 << 20

const (
	mpiWorkers = "node" // the name of the replicatedJob of the workers

	mpiHostfileVolume = "mpi-hostfile"
	mpiHostfileDir    = "/etc/mpi"
	mpiHostfileName   = "hostfile"

	mpiSSHVolume  = "mpi-ssh-auth"
	mpiSSHDefault = "/root/.ssh"
)

// mpi is a job under OpenMPI: one launcher, which is the trainer job, and workers that
// wait for it under sshd.
type mpi struct {
	Input
	// workers is the replicatedJob of the workers, nil when none remains.
	workers *jobsetv1alpha2.ReplicatedJob
	// count is the number of workers.
	count int32
	// launcherTrains: the launcher is the first training node.
	launcherTrains bool
}

// mpiWorkersOf finds the replicatedJob of the workers. The launcher is never one.
func mpiWorkersOf(in Input) *jobsetv1alpha2.ReplicatedJob {
	if in.TrainerJob.Name == mpiWorkers {
		return nil
	}
	return FindReplicatedJob(in.Spec, mpiWorkers)
}

// mpiPeers is the main container of the workers.
func mpiPeers(in Input) []*corev1.Container {
	if workers := mpiWorkersOf(in); workers != nil {
		if c := FindContainer(workers.Template.Spec.Template.Spec.Containers, v1alpha1.ContainerNode); c != nil {
			return []*corev1.Container{c}
		}
	}
	return nil
}

// buildMPI lists the training nodes in a hostfile, hands it to the launcher, and lets
// the launcher reach the workers with a key pair of the job's own.
func buildMPI(in Input) (Output, field.ErrorList) {
	m := mpi{Input: in, workers: mpiWorkersOf(in), count: in.Nodes, launcherTrains: ptr.Deref(in.Policy.MPI.RunLauncherAsNode, false)}
	if m.launcherTrains {
		m.count--
	}
	if errs := m.check(); len(errs) > 0 {
		return Output{}, errs
	}
	out := Output{
		DNSHostnames: true,
		Pods: []PodAddition{{
			ReplicatedJob: in.TrainerJob.Name, Count: ptr.To[int32](1),
			Volumes: []corev1.Volume{m.sshVolume(), m.hostfileVolume()},
		}},
		Containers: []Addition{{
			ReplicatedJob: in.TrainerJob.Name, Container: in.Node.Name, Env: m.env(),
			Mounts: []corev1.VolumeMount{m.sshMount(), {Name: mpiHostfileVolume, MountPath: mpiHostfileDir}},
		}},
		ConfigMaps: []Files{{Name: m.hostfileName(), Data: map[string]string{mpiHostfileName: m.hostfile()}}},
		Keys:       &Keys{Name: m.secretName(), Kind: KeysSSH},
	}
	if m.count == 0 {
		out.Removed = []string{mpiWorkers}
		return out, nil
	}
	out.Pods = append(out.Pods, PodAddition{ReplicatedJob: mpiWorkers, Count: &m.count, Volumes: []corev1.Volume{m.sshVolume()}})
	out.Containers = append(out.Containers, Addition{
		ReplicatedJob: mpiWorkers, Container: v1alpha1.ContainerNode, Mounts: []corev1.VolumeMount{m.sshMount()},
	})
	if waitsFor(in.Spec, in.TrainerJob, mpiWorkers) {
		out.Gang = mpiWorkers
	}
	return out, nil
}

// check refuses what could not be started or whose nodes would never find each other.
func (m mpi) check() field.ErrorList {
	var errs field.ErrorList
	jobs := field.NewPath("spec", "template", "spec", "replicatedJobs")
	if implementation := ptr.Deref(m.Policy.MPI.MPIImplementation, ""); implementation != "" && implementation != v1alpha1.MPIImplementationOpenMPI {
		errs = append(errs, field.NotSupported(policyPath().Child("mpi", "mpiImplementation"), implementation,
			[]v1alpha1.MPIImplementation{v1alpha1.MPIImplementationOpenMPI}))
	}
	if m.Nodes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "trainer", "numNodes"), m.Nodes, "MPI needs at least one node: give 1 or more"))
	}
	if m.TrainerJob.Name == mpiWorkers {
		return append(errs, field.Invalid(jobs.Key(mpiWorkers), mpiWorkers, fmt.Sprintf(
			"this is the replicatedJob of the workers, and the label %s: %s is the launcher's: put it there", v1alpha1.LabelAncestorStep, v1alpha1.StepTrainer)))
	}
	errs = append(errs, m.checkIndexed(jobs, m.TrainerJob)...)
	if size := int64(m.Nodes) * int64(len(m.line(mpiWorkers, max(m.count, 1)-1, m.slots()))); size > maxFileBytes {
		return append(errs, field.Invalid(field.NewPath("spec", "trainer", "numNodes"), m.Nodes, fmt.Sprintf(
			"the hostfile would take %d bytes of at most %d: use fewer nodes", size, maxFileBytes)))
	}
	if m.count < 1 {
		return errs
	}
	if m.workers == nil {
		return append(errs, missing(jobs, mpiWorkers, fmt.Sprintf(
			"%d workers are to be started: add a replicatedJob of this name that runs sshd", m.count)))
	}
	if len(mpiPeers(m.Input)) == 0 {
		errs = append(errs, missing(jobs.Key(mpiWorkers).Child("template", "spec", "template", "spec", "containers"), v1alpha1.ContainerNode,
			fmt.Sprintf("the workers must have a container of this name that runs sshd (they have: %s): give the one that does this name",
				ContainerNames(m.workers.Template.Spec.Template.Spec.Containers))))
	}
	if network := m.Spec.Network; network != nil && !ptr.Deref(network.EnableDNSHostnames, true) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "template", "spec", "network", "enableDNSHostnames"), false,
			"the launcher finds the workers by host name: set true or leave the field out"))
	}
	return append(errs, m.checkIndexed(jobs, m.workers)...)
}

// checkIndexed refuses jobs whose pods have no host names of their own.
func (m mpi) checkIndexed(jobs *field.Path, rjob *jobsetv1alpha2.ReplicatedJob) field.ErrorList {
	mode := rjob.Template.Spec.CompletionMode
	if mode == nil || *mode == batchv1.IndexedCompletion {
		return nil
	}
	return field.ErrorList{field.Invalid(jobs.Key(rjob.Name).Child("template", "spec", "completionMode"), *mode,
		"the nodes are found by their completion index: set Indexed or leave the field out")}
}

// env is what Open MPI 4 and, under new names, Open MPI 5 read. It stands for flags of
// mpirun, which the user's command then need not have.
func (m mpi) env() []corev1.EnvVar {
	const sshArgs = "-o ConnectionAttempts=10" // a worker's name may resolve later than its pod is ready
	hostfile, slots := mpiHostfileDir+"/"+mpiHostfileName, strconv.FormatInt(m.slots(), 10)
	return []corev1.EnvVar{
		{Name: "OMPI_MCA_orte_default_hostfile", Value: hostfile},
		{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "true"},
		{Name: "OMPI_MCA_orte_set_default_slots", Value: slots},
		{Name: "OMPI_MCA_plm_rsh_args", Value: sshArgs},
		{Name: "PRTE_MCA_prte_default_hostfile", Value: hostfile},
		{Name: "PRTE_MCA_prte_keep_fqdn_hostnames", Value: "true"},
		{Name: "PRTE_MCA_prte_set_default_slots", Value: slots},
		{Name: "PRTE_MCA_plm_ssh_args", Value: sshArgs},
	}
}

// slots is the number of processes on each node: what the user says, else what the
// runtime says. The runtime's default of 1 gives way to the number of GPUs.
func (m mpi) slots() int64 {
	if m.Trainer != nil && m.Trainer.NumProcPerNode != nil {
		return int64(*m.Trainer.NumProcPerNode)
	}
	if slots := int64(ptr.Deref(m.Policy.MPI.NumProcPerNode, 1)); slots > 1 {
		return slots
	}
	node := m.Node
	if peers := mpiPeers(m.Input); m.count > 0 && len(peers) > 0 {
		node = peers[0]
	}
	return max(GPUs(&node.Resources), 1)
}

// hostfile has a line for each training node.
func (m mpi) hostfile() string {
	var b strings.Builder
	slots := m.slots()
	if m.launcherTrains {
		b.WriteString(m.line(m.TrainerJob.Name, 0, slots))
	}
	for i := range m.count {
		b.WriteString(m.line(mpiWorkers, i, slots))
	}
	return b.String()
}

func (m mpi) line(rjob string, index int32, slots int64) string {
	return fmt.Sprintf("%s slots=%d\n", host(m.Input, rjob, index), slots)
}

func (m mpi) hostfileName() string { return m.JobName + "-mpi-hostfile" }

func (m mpi) secretName() string { return ownSecretName(m.Input, "mpi-ssh") }

func (m mpi) hostfileVolume() corev1.Volume {
	return corev1.Volume{Name: mpiHostfileVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: m.hostfileName()},
		Items:                []corev1.KeyToPath{{Key: mpiHostfileName, Path: mpiHostfileName, Mode: ptr.To[int32](0o444)}},
	}}}
}

// sshVolume holds the files under the names that ssh and sshd look for. ssh refuses a
// private key that others than its owner can read; with an fsGroup, which users other
// than root need, Kubernetes lets the group read it.
func (m mpi) sshVolume() corev1.Volume {
	return corev1.Volume{Name: mpiSSHVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName:  m.secretName(),
		DefaultMode: ptr.To[int32](0o600),
		Items: []corev1.KeyToPath{
			{Key: SSHPrivateKey, Path: "id_rsa", Mode: ptr.To[int32](0o600)},
			{Key: SSHPublicKey, Path: "id_rsa.pub", Mode: ptr.To[int32](0o644)},
			{Key: SSHPublicKey, Path: "authorized_keys", Mode: ptr.To[int32](0o644)},
		},
	}}}
}

func (m mpi) sshMount() corev1.VolumeMount {
	path := ptr.Deref(m.Policy.MPI.SSHAuthMountPath, "")
	if path == "" {
		path = mpiSSHDefault
	}
	return corev1.VolumeMount{Name: mpiSSHVolume, MountPath: path}
}

// waitsFor says whether a job starts only when another is ready.
func waitsFor(spec *jobsetv1alpha2.JobSetSpec, rjob *jobsetv1alpha2.ReplicatedJob, other string) bool {
	if policy := spec.StartupPolicy; policy != nil && policy.StartupPolicyOrder == jobsetv1alpha2.InOrder {
		return true
	}
	return slices.ContainsFunc(rjob.DependsOn, func(d jobsetv1alpha2.DependsOn) bool { return d.Name == other })
}
