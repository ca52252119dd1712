package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/trainjob/controller/apis/trainer/v1alpha1"
)

// mpiRuntime is the smallest MPI runtime: a launcher and two workers.
func mpiRuntime(change ...func(*v1alpha1.TrainingRuntimeSpec)) Runtime {
	return torchRuntime(append([]func(*v1alpha1.TrainingRuntimeSpec){func(spec *v1alpha1.TrainingRuntimeSpec) {
		spec.MLPolicy.Torch, spec.MLPolicy.MPI = nil, &v1alpha1.MPIMLPolicySource{}
		workers := replicatedJob("node", "", "node")
		podOf(&workers).Containers[0].Command = []string{"sshd"}
		spec.Template.Spec.ReplicatedJobs = []jobsetv1alpha2.ReplicatedJob{replicatedJob("launcher", v1alpha1.StepTrainer, "node"), workers}
	}}, change...)...)
}

func asNode(spec *v1alpha1.TrainingRuntimeSpec) { spec.MLPolicy.MPI.RunLauncherAsNode = ptr.To(true) }

func TestGoldenFilesOfMPI(t *testing.T) {
	for _, launcherTrains := range []bool{false, true} {
		for nodes := int32(1); nodes <= 3; nodes++ {
			name := fmt.Sprintf("mpi-%d", nodes)
			if launcherTrains {
				name = fmt.Sprintf("mpi-as-node-%d", nodes)
			}
			t.Run(name, func(t *testing.T) {
				job, runtime := fromFiles(t, "mpi", "bare")
				job.Spec.Trainer = &v1alpha1.Trainer{NumNodes: &nodes, Command: []string{"mpirun", "train"}}
				runtime.Spec.MLPolicy.MPI.RunLauncherAsNode = &launcherTrains
				objects := mustRender(t, job, runtime)
				checkGolden(t, name, objects)
				if lines := strings.Count(objects.ConfigMaps[0].Data["hostfile"], "\n"); lines != int(nodes) {
					t.Errorf("the hostfile has %d lines, want one for each of %d nodes", lines, nodes)
				}
			})
		}
	}
}

func TestTrainerFieldsOfMPI(t *testing.T) {
	memory := corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	user := corev1.EnvVar{Name: "USER_ENV", Value: "1"}
	objects := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{
		Image: ptr.To("mine"), Command: []string{"mpirun"}, Args: []string{"train"}, ResourcesPerNode: &memory, Env: []corev1.EnvVar{user},
	})), mpiRuntime())
	launcher, workers := podOf(&objects.JobSet.Spec.ReplicatedJobs[0]).Containers[0], podOf(&objects.JobSet.Spec.ReplicatedJobs[1]).Containers[0]

	type started struct{ Command, Args []string }
	want := []started{{[]string{"mpirun"}, []string{"train"}}, {[]string{"sshd"}, nil}}
	if diff := cmp.Diff(want, []started{{launcher.Command, launcher.Args}, {workers.Command, workers.Args}}); diff != "" {
		t.Errorf("command and args of launcher and workers (-want +got):\n%s", diff)
	}
	for name, c := range map[string]corev1.Container{"launcher": launcher, "workers": workers} {
		if c.Image != "mine" {
			t.Errorf("the image of the %s is %s", name, c.Image)
		}
		if diff := cmp.Diff(memory, c.Resources); diff != "" {
			t.Errorf("resources of the %s (-want +got):\n%s", name, diff)
		}
		if last := c.Env[len(c.Env)-1]; last != user {
			t.Errorf("the last variable of the %s is %v", name, last)
		}
	}
	launcher.Resources.Limits["memory"] = resource.MustParse("9Gi")
	if workers.Resources.Limits.Memory().String() != "1Gi" {
		t.Error("launcher and workers share memory")
	}
}

func TestAWorkerJobThatIsNotNeededLeavesNoTrace(t *testing.T) {
	objects := mustRender(t, trainJob(withTrainer(v1alpha1.Trainer{NumNodes: ptr.To[int32](1)})), mpiRuntime(asNode, func(spec *v1alpha1.TrainingRuntimeSpec) {
		js := &spec.Template.Spec
		js.SuccessPolicy = &jobsetv1alpha2.SuccessPolicy{TargetReplicatedJobs: []string{"node"}}
		js.Coordinator = &jobsetv1alpha2.Coordinator{ReplicatedJob: "node"}
		js.ReplicatedJobs = append(js.ReplicatedJobs, replicatedJob("eval", "", "eval"))
		js.ReplicatedJobs[0].DependsOn = []jobsetv1alpha2.DependsOn{{Name: "node", Status: jobsetv1alpha2.DependencyReady}}
		js.ReplicatedJobs[2].DependsOn = []jobsetv1alpha2.DependsOn{{Name: "launcher", Status: jobsetv1alpha2.DependencyComplete}, {Name: "node", Status: jobsetv1alpha2.DependencyReady}}
	}))
	spec := objects.JobSet.Spec
	if spec.Coordinator != nil || spec.SuccessPolicy.TargetReplicatedJobs != nil || len(spec.ReplicatedJobs) != 2 {
		t.Errorf("the JobSet still speaks of the workers: %s", toJSON(t, spec))
	}
	want := [][]jobsetv1alpha2.DependsOn{nil, {{Name: "launcher", Status: jobsetv1alpha2.DependencyComplete}}}
	if diff := cmp.Diff(want, [][]jobsetv1alpha2.DependsOn{spec.ReplicatedJobs[0].DependsOn, spec.ReplicatedJobs[1].DependsOn}); diff != "" {
		t.Errorf("dependsOn (-want +got):\n%s", diff)
	}
}

func TestReservedVolumesOfMPIReplaceTheUsers(t *testing.T) {
	objects := mustRender(t, trainJob(), mpiRuntime(func(spec *v1alpha1.TrainingRuntimeSpec) {
		pod := podOf(&spec.Template.Spec.ReplicatedJobs[0])
		pod.Volumes = []corev1.Volume{{Name: "mine"}, {Name: "mpi-ssh-auth", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: "/etc/mpi"}, {Name: "mine", MountPath: "/mine"}}
	}))
	pod := trainerPod(t, objects)
	var volumes, mounts []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts = append(mounts, m.Name+" "+m.MountPath)
	}
	if diff := cmp.Diff([]string{"mine", "mpi-ssh-auth", "mpi-hostfile"}, volumes); diff != "" || pod.Volumes[1].Secret == nil {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"mpi-hostfile /etc/mpi", "mine /mine", "mpi-ssh-auth /root/.ssh"}, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestAGangCountsTheTrainersPodsWithTheUsersResources(t *testing.T) {
	job, runtime := fromFiles(t, "torch", "full")
	runtime.Spec.PodGroupPolicy = &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{
		Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{}}}
	checkGolden(t, "torch-coscheduling", mustRender(t, job, runtime))
}

func TestAGangOfWorkersStartsBeforeItsLauncher(t *testing.T) {
	job, runtime := fromFiles(t, "mpi", "bare")
	runtime.Spec.PodGroupPolicy = &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{
		Volcano: &v1alpha1.VolcanoPodGroupPolicySource{}}}
	objects := mustRender(t, job, runtime)
	checkGolden(t, "mpi-volcano", objects)
	want := []any{objects.PodGroup, objects.ConfigMaps[0], objects.Keys.Secret, objects.JobSet}
	if diff := cmp.Diff(want, objects.All()); diff != "" {
		t.Errorf("order of the objects (-want +got):\n%s", diff)
	}
}

func TestGoldenFileOfFlux(t *testing.T) {
	job, runtime := fromFiles(t, "plain", "without-initializer")
	runtime.Spec.MLPolicy = &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{Flux: &v1alpha1.FluxMLPolicySource{}}}
	checkGolden(t, "flux", mustRender(t, job, runtime))
}
