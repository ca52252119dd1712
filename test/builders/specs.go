package builders

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// PlainSpec is a runtime without a framework: one job `node`, labelled as the trainer,
// with one container `node`.
func PlainSpec() trainer.TrainingRuntimeSpec {
	return specOf(nil, ReplicatedJob("node", trainer.StepTrainer, "node"))
}

// TorchSpec is PlainSpec with PyTorch on two nodes.
func TorchSpec() trainer.TrainingRuntimeSpec {
	spec := PlainSpec()
	spec.MLPolicy = &trainer.MLPolicy{
		NumNodes:       ptr.To[int32](2),
		MLPolicySource: trainer.MLPolicySource{Torch: &trainer.TorchMLPolicySource{}},
	}
	return spec
}

// InitializerSpec is TorchSpec with a job that fetches the dataset and one that
// fetches the model, both into the volume `initializer`, before the trainer starts.
func InitializerSpec() trainer.TrainingRuntimeSpec {
	spec := TorchSpec()
	node := spec.Template.Spec.ReplicatedJobs[0]
	spec.Template.Spec.ReplicatedJobs = nil
	for _, step := range []string{trainer.StepDatasetInitializer, trainer.StepModelInitializer} {
		spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, ReplicatedJob(step, step, step))
		node.DependsOn = append(node.DependsOn, jobset.DependsOn{Name: step, Status: jobset.DependencyComplete})
	}
	spec.Template.Spec.ReplicatedJobs = append(spec.Template.Spec.ReplicatedJobs, node)
	for i := range spec.Template.Spec.ReplicatedJobs {
		pod := &spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
		pod.Volumes = []corev1.Volume{{Name: "initializer", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "initializer", MountPath: "/workspace"}}
	}
	return spec
}

// MPISpec is OpenMPI on two nodes: `launcher`, labelled as the trainer, and `node`,
// which has no label and runs sshd.
func MPISpec() trainer.TrainingRuntimeSpec {
	workers := ReplicatedJob("node", "", "node")
	workers.Template.Spec.Template.Spec.Containers[0].Command = []string{"/usr/sbin/sshd", "-De"}
	return specOf(&trainer.MLPolicy{
		NumNodes: ptr.To[int32](2),
		MLPolicySource: trainer.MLPolicySource{MPI: &trainer.MPIMLPolicySource{
			NumProcPerNode:    ptr.To[int32](1),
			MPIImplementation: ptr.To(trainer.MPIImplementationOpenMPI),
			SSHAuthMountPath:  ptr.To("/root/.ssh"),
			RunLauncherAsNode: ptr.To(false),
		}},
	}, ReplicatedJob("launcher", trainer.StepTrainer, "node"), workers)
}

// ReplicatedJob has one replica of a Job with one pod and the given containers. The
// step may be empty.
func ReplicatedJob(name, step string, containers ...string) jobset.ReplicatedJob {
	job := jobset.ReplicatedJob{Name: name, GroupName: "default", Replicas: 1, Template: batchv1.JobTemplateSpec{}}
	if step != "" {
		job.Template.Labels = map[string]string{trainer.LabelAncestorStep: step}
	}
	pod := &job.Template.Spec.Template.Spec
	pod.RestartPolicy = corev1.RestartPolicyNever
	for _, container := range containers {
		pod.Containers = append(pod.Containers, corev1.Container{Name: container, Image: container + ":test"})
	}
	return job
}

func specOf(policy *trainer.MLPolicy, jobs ...jobset.ReplicatedJob) trainer.TrainingRuntimeSpec {
	return trainer.TrainingRuntimeSpec{
		MLPolicy: policy,
		Template: trainer.JobSetTemplateSpec{Spec: jobset.JobSetSpec{ReplicatedJobs: jobs}},
	}
}
