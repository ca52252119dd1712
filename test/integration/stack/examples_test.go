package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/harness"
)

// claims are what the comments of the examples say, by file.
var claims = map[string]func(t *testing.T, namespace string){
	"plain.yaml": func(t *testing.T, namespace string) { completes(t, namespace, "plain", 1) },
	"deadline.yaml": func(t *testing.T, namespace string) {
		job := completes(t, namespace, "deadline", 1)
		if limit := job.Status.Lifecycle.ActiveDeadlineSeconds; ptr.Deref(limit, 0) != 3600 {
			t.Errorf("the deadline is %v, want an hour", limit)
		}
	},
	"ttl.yaml": func(t *testing.T, namespace string) {
		job := completes(t, namespace, "ttl", 1)
		if limit := job.Status.Lifecycle.TTLSecondsAfterFinished; ptr.Deref(limit, 0) != 600 {
			t.Errorf("the time to live is %v, want ten minutes", limit)
		}
	},
	"torch.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "torch", 2)
		for _, pod := range podsOf(t, namespace, "torch", "node") {
			node := pod.Spec.Containers[0]
			if gpus := node.Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 4 {
				t.Errorf("pod %s has %s GPUs, want 4", pod.Name, gpus.String())
			}
			if cpus := node.Resources.Requests.Cpu().Value(); cpus != 8 {
				t.Errorf("pod %s has %d CPUs, want 8", pod.Name, cpus)
			}
			if command := strings.Join(append(node.Command, node.Args...), " "); command != "torchrun /workspace/train.py --epochs 3" {
				t.Errorf("pod %s runs %q", pod.Name, command)
			}
			for _, v := range node.Env {
				if v.Name == "PET_NPROC_PER_NODE" && v.Value != "auto" {
					t.Errorf("with GPUs torchrun is told to start %s processes, want auto", v.Value)
				}
			}
		}
	},
	"deepspeed.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "deepspeed", 1)
		for _, name := range []string{"launcher", "node"} {
			for _, pod := range podsOf(t, namespace, "deepspeed", name) {
				node := pod.Spec.Containers[0]
				if gpus := node.Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 4 {
					t.Errorf("pod %s has %s GPUs, want 4", pod.Name, gpus.String())
				}
				if starts := node.Command[0] == "mpirun"; starts != (name == "launcher") {
					t.Errorf("pod %s runs %v", pod.Name, node.Command)
				}
			}
		}
		hosts, err := env.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), "deepspeed-mpi-hostfile", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "deepspeed-launcher-0-0.deepspeed slots=4\ndeepspeed-node-0-0.deepspeed slots=4\n"; hosts.Data["hostfile"] != want {
			t.Errorf("the hostfile is %q, want %q", hosts.Data["hostfile"], want)
		}
	},
	"mlx.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "mlx", 1)
		hosts, err := env.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), "mlx-mpi-hostfile", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "mlx-launcher-0-0.mlx slots=1\nmlx-node-0-0.mlx slots=1\n"; hosts.Data["hostfile"] != want {
			t.Errorf("the hostfile is %q, want %q", hosts.Data["hostfile"], want)
		}
	},
	"flux.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "flux", 2)
		for _, pod := range podsOf(t, namespace, "flux", "node") {
			want := `/bin/bash /etc/flux-config/entrypoint.sh bash -c echo $FLUX_TASK_RANK of $FLUX_JOB_SIZE`
			if command := strings.Join(pod.Spec.Containers[0].Command, " "); command != want {
				t.Errorf("pod %s runs %q", pod.Name, command)
			}
		}
		files, err := env.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), "flux-flux-entrypoint", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(files.Data["job.sh"], "flags='-N 2 -n 8'") {
			t.Errorf("Flux is told %q", files.Data["job.sh"])
		}
	},
	"suspended.yaml": func(t *testing.T, namespace string) {
		env.AwaitState(t, namespace, "suspended", trainer.TrainJobSuspended, trainer.ReasonSuspended, harness.Soon)
		if env.JobSetOf(t, namespace, "suspended") != nil {
			t.Error("a job that was never resumed has a JobSet")
		}
		// The command of the comment.
		env.Kubectl(t, "-n", namespace, "patch", "trainjob", "suspended", "--type", "merge", "-p", `{"spec":{"suspend":false}}`)
		completes(t, namespace, "suspended", 1)
		for _, pod := range podsOf(t, namespace, "suspended", "node") {
			if pod.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
				t.Errorf("pod %s has node selector %v", pod.Name, pod.Spec.NodeSelector)
			}
		}
	},
}

// claimsOfFrameworks are those of the examples that need another framework than
// torchrun, by file.
var claimsOfFrameworks = map[string]func(t *testing.T, namespace string){
	"jax.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "jax", 2)
		hasVariables(t, namespace, "jax", map[string]string{"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "jax-node-0-0.jax:29500"})
	},
	"xgboost.yaml": func(t *testing.T, namespace string) {
		completes(t, namespace, "xgboost", 2)
		hasVariables(t, namespace, "xgboost", map[string]string{"DMLC_NUM_WORKER": "4", "DMLC_TRACKER_URI": "xgboost-node-0-0.xgboost", "DMLC_TRACKER_PORT": "29500"})
	},
	"torch-distributed-preflight.yaml":        func(t *testing.T, namespace string) { checksAsItTrains(t, namespace, "torch-preflight", 4) },
	"torch-distributed-preflight-legacy.yaml": func(t *testing.T, namespace string) { checksAsItTrains(t, namespace, "torch-preflight-legacy", 2) },
	"torchtune-llama3.2-1b.yaml": func(t *testing.T, namespace string) {
		tunes(t, namespace, "torchtune-llama3-2-1b", "tune run lora_finetune_single_device --config llama3_2/1B_qlora_single_device output_dir=")
	},
	"torchtune-llama3.2-3b.yaml": func(t *testing.T, namespace string) {
		const job = "torchtune-llama3-2-3b"
		tunes(t, namespace, job, "tune run --rdzv_endpoint="+job+"-node-0-0."+job+":29500 full_finetune_distributed --config llama3_2/3B_full output_dir=")
	},
	"torchtune-qwen2.5-1.5b.yaml": func(t *testing.T, namespace string) {
		tunes(t, namespace, "torchtune-qwen2-5-1-5b", "tune run --rdzv_endpoint=localhost:29500 full_finetune_distributed --config qwen2_5/1.5B_full dataset=")
	},
}

// checksAsItTrains: preflight has the variables of the training, first of all, and the
// pods can be found by their label.
func checksAsItTrains(t *testing.T, namespace, job string, nodes int) {
	t.Helper()
	completes(t, namespace, job, nodes)
	for _, pod := range podsOf(t, namespace, job, "node") {
		training, check := ofTorchrun(pod.Spec.Containers[0].Env), ofTorchrun(pod.Spec.InitContainers[1].Env)
		if diff := cmp.Diff(training, check); diff != "" || len(training) != 5 {
			t.Errorf("pod %s: variables of the training container and of the check (-training +check):\n%s", pod.Name, diff)
		}
		if pod.Labels[trainer.LabelPreflight] != trainer.ContainerPreflight {
			t.Errorf("pod %s has labels %v", pod.Name, pod.Labels)
		}
	}
}

// ofTorchrun are the variables that torchrun reads. Kubernetes and the runtime have
// others.
func ofTorchrun(all []corev1.EnvVar) []corev1.EnvVar {
	return slices.DeleteFunc(slices.Clone(all), func(v corev1.EnvVar) bool { return !strings.HasPrefix(v.Name, "PET_") })
}

func hasVariables(t *testing.T, namespace, job string, want map[string]string) {
	t.Helper()
	for _, pod := range podsOf(t, namespace, job, "node") {
		got := map[string]string{}
		for _, v := range pod.Spec.Containers[0].Env {
			if _, asked := want[v.Name]; asked {
				got[v.Name] = v.Value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("variables of pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
}

// tunes checks what JobSet has taken. The pods wait for ever: nobody provides volumes
// here.
func tunes(t *testing.T, namespace, job, command string) {
	t.Helper()
	waits := env.AwaitState(t, namespace, job, trainer.TrainJobPending, trainer.ReasonWaitingForPods, 2*harness.Soon)
	jobs := env.JobSetOf(t, namespace, waits.Name).Spec.ReplicatedJobs
	node := jobs[len(jobs)-1].Template.Spec.Template.Spec.Containers[0]
	if got := strings.Join(node.Command, " "); !strings.HasPrefix(got, command) {
		t.Errorf("the training container runs %q, want %q …", got, command)
	}
	harness.Eventually(t, harness.Soon, func() string {
		claims, err := env.Core.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(claims.Items) != 1 {
			return fmt.Sprintf("volume claims %v, error %v, want one claim", claims, err)
		}
		return ""
	})
}

func completes(t *testing.T, namespace, name string, nodes int) *trainer.TrainJob {
	t.Helper()
	job := env.AwaitState(t, namespace, name, trainer.TrainJobComplete, "AllJobsCompleted", 2*harness.Soon)
	if pods := podsOf(t, namespace, name, "node"); len(pods) != nodes {
		t.Errorf("job %s ran %d pods, want %d", name, len(pods), nodes)
	}
	return job
}

func TestTheExamplesDoWhatTheirCommentsSay(t *testing.T) {
	t.Parallel()
	artifacts := filepath.Join(harness.SourceDir(), "artifacts")
	env.Kubectl(t, "apply", "-k", filepath.Join(artifacts, "runtimes"))
	files, err := filepath.Glob(filepath.Join(artifacts, "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			claim, tested := claims[filepath.Base(file)]
			if !tested {
				claim, tested = claimsOfFrameworks[filepath.Base(file)]
			}
			if !tested {
				t.Fatal("nobody has said here what this example claims: add it to claims")
			}
			namespace := env.Namespace(t)
			env.Kubectl(t, "apply", "-f", inNamespace(t, file, namespace))
			claim(t, namespace)
		})
	}
}

// inNamespace is a copy of an example for another namespace.
func inNamespace(t *testing.T, file, namespace string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	object["metadata"].(map[string]any)["namespace"] = namespace
	if data, err = yaml.Marshal(object); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}
