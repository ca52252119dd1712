package framework

import (
	_ "embed" // the two scripts
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// KeysCurve is a certificate with which the brokers of one job know each other.
const KeysCurve KeyKind = "curve"

// CurveCertificate is the key of the Secret that holds it.
const CurveCertificate = "curve.cert"

// Names and paths that the scripts rely on.
const (
	fluxInstaller  = "flux-installer"
	fluxInstallDir = "/mnt/flux"
	fluxConfigDir  = "/etc/flux-config"
	fluxMemoryDir  = "/dev/shm"

	fluxInstallVolume  = "flux-install"
	fluxSoftwareVolume = "spack-install"
	fluxConfigVolume   = "flux-config"
	fluxCurveVolume    = "flux-curve"
	fluxMemoryVolume   = "shared-memory"
)

//go:embed flux/init.sh
var fluxInitScript string

//go:embed flux/entrypoint.sh
var fluxEntrypoint string

// Variables of the training container that change what this file adds, and what they
// are without being set.
const (
	fluxViewImage     = "FLUX_VIEW_IMAGE"
	fluxNetworkDevice = "FLUX_NETWORK_DEVICE"
	fluxQueuePolicy   = "FLUX_QUEUE_POLICY"
)

var fluxDefaults = map[string]string{
	fluxViewImage:     "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
	fluxNetworkDevice: "eth0",
	fluxQueuePolicy:   "fcfs",
}

// buildFlux brings Flux into the training container and starts the user's command with
// it on all nodes.
func buildFlux(in Input) (Output, field.ErrorList) {
	if errs := checkFlux(in); len(errs) > 0 {
		return Output{}, errs
	}
	keys := &Keys{Name: ownSecretName(in, "flux-curve"), Kind: KeysCurve}
	files := in.JobName + "-flux-entrypoint"
	mounts := []corev1.VolumeMount{
		{Name: fluxInstallVolume, MountPath: fluxInstallDir},
		{Name: fluxSoftwareVolume, MountPath: "/opt/software"},
		{Name: fluxConfigVolume, MountPath: fluxConfigDir, ReadOnly: true},
		{Name: fluxCurveVolume, MountPath: "/curve", ReadOnly: true},
	}
	volumes := []corev1.Volume{
		emptyDir(fluxInstallVolume, corev1.StorageMediumDefault), emptyDir(fluxSoftwareVolume, corev1.StorageMediumDefault),
		{Name: fluxConfigVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: files}, DefaultMode: ptr.To[int32](0o755)}}},
		{Name: fluxCurveVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: keys.Name, DefaultMode: ptr.To[int32](0o400)}}},
	}
	// Processes of one node exchange data through shared memory, of which containers have
	// little by default. A volume of the user's own is left in its place.
	if !slices.ContainsFunc(in.Node.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == fluxMemoryDir }) {
		mounts = append(mounts, corev1.VolumeMount{Name: fluxMemoryVolume, MountPath: fluxMemoryDir})
		volumes = append(volumes, emptyDir(fluxMemoryVolume, corev1.StorageMediumMemory))
	}
	return Output{
		DNSHostnames: true,
		Pods: []PodAddition{{ReplicatedJob: in.TrainerJob.Name, Volumes: volumes, InitContainers: []corev1.Container{{
			Name: fluxInstaller, Image: fluxSetting(in, fluxViewImage), Command: []string{"/bin/bash", fluxConfigDir + "/init.sh"},
			VolumeMounts: []corev1.VolumeMount{
				{Name: fluxInstallVolume, MountPath: fluxInstallDir}, {Name: fluxConfigVolume, MountPath: fluxConfigDir, ReadOnly: true}},
		}}}},
		Containers: []Addition{{
			ReplicatedJob: in.TrainerJob.Name, Container: in.Node.Name,
			Wrapper: []string{"/bin/bash", fluxConfigDir + "/entrypoint.sh"}, Mounts: mounts,
		}},
		ConfigMaps: []Files{{Name: files, Data: map[string]string{
			"init.sh": fluxInitScript, "entrypoint.sh": fluxEntrypoint, "job.sh": fluxJob(in), "broker.toml": fluxBroker(in)}}},
		Keys: keys,
	}, nil
}

func checkFlux(in Input) field.ErrorList {
	errs := checkAddressable(in)
	if in.Nodes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "trainer", "numNodes"), in.Nodes, "Flux needs at least one node: give 1 or more"))
	}
	if FindAnyContainer(&in.TrainerJob.Template.Spec.Template.Spec, fluxInstaller) != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "template", "spec", "replicatedJobs").Key(in.TrainerJob.Name).
			Child("template", "spec", "template", "spec", "initContainers").Key(fluxInstaller).Child("name"), fluxInstaller, "Flux adds an init container of this name: rename the runtime's own"))
	}
	if tasks, path := fluxTasks(in); tasks < 1 {
		errs = append(errs, field.Invalid(path, tasks, "Flux needs at least one process on every node: give 1 or more"))
	}
	return errs
}

// fluxSetting is what the training container says, or the default.
func fluxSetting(in Input, name string) string {
	for i := range in.Node.Env {
		if env := &in.Node.Env[i]; env.Name == name && env.Value != "" {
			return env.Value
		}
	}
	return fluxDefaults[name]
}

// fluxTasks is the number of processes on each node, and the field that says so.
func fluxTasks(in Input) (int64, *field.Path) {
	if in.Trainer != nil && in.Trainer.NumProcPerNode != nil {
		return int64(*in.Trainer.NumProcPerNode), field.NewPath("spec", "trainer", "numProcPerNode")
	}
	return int64(ptr.Deref(in.Policy.Flux.NumProcPerNode, 1)), policyPath().Child("flux", "numProcPerNode")
}

// fluxJob are the variables of the scripts. None of the values needs quotes within.
func fluxJob(in Input) string {
	tasks, _ := fluxTasks(in)
	gpus := GPUs(&in.Node.Resources)
	resources := "--cores=" + idRange(tasks)
	flags := fmt.Sprintf("-N %d -n %d", in.Nodes, tasks*int64(in.Nodes))
	if gpus > 0 {
		resources += " --gpus=" + idRange(gpus)
		if each := gpus / max(tasks, 1); each > 0 {
			flags += fmt.Sprintf(" -g %d", each)
		}
	}
	var b strings.Builder
	for _, line := range [][2]string{{"hosts", fluxHosts(in)}, {"first", hostname(in, 0)}, {"resources", resources}, {"flags", flags}} {
		fmt.Fprintf(&b, "%s='%s'\n", line[0], line[1])
	}
	return b.String()
}

// fluxBroker is the configuration of the brokers, which wait for each other by name.
func fluxBroker(in Input) string {
	return fmt.Sprintf(`[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = %q
default_connect = %q
hosts = [{ host = %q }]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = %q
`, "tcp://"+fluxSetting(in, fluxNetworkDevice)+":%p", "tcp://%h."+subdomain(in)+":%p", fluxHosts(in), fluxSetting(in, fluxQueuePolicy))
}

// fluxHosts are the host names of all nodes, in Flux's way of writing them.
func fluxHosts(in Input) string {
	return fmt.Sprintf("%s-%s-0-[%s]", in.JobName, in.TrainerJob.Name, idRange(int64(in.Nodes)))
}

// idRange are the numbers below n, as Flux writes them.
func idRange(n int64) string {
	if n <= 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

func hostname(in Input, index int32) string {
	return fmt.Sprintf("%s-%s-0-%d", in.JobName, in.TrainerJob.Name, index)
}

func emptyDir(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}
