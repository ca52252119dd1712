package opaque

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	trainer "github.com/trainjob/controller/apis/trainer/v1alpha1"
	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

const (
	group = "slurm.example.com"
	// patience is for what is polled: a minute, and a machine that has other things to do.
	patience = 2 * time.Minute
)

// kinds are those that the controller is told to leave to builders. GoneRuntime never
// exists.
const kinds = "--opaque-runtime-kinds=SlurmRuntime.slurm.example.com,ClusterSlurmRuntime.slurm.example.com,LateRuntime.late.example.com,GoneRuntime.gone.example.com"

var env harness.Env

func TestMain(m *testing.M) {
	options := cluster.WithoutJobSetController()
	options.CRDDirs = []string{filepath.Join(harness.SourceDir(), "test", "slurm", "crds")}
	os.Exit(harness.MainPrepared(m, options, &env, func(ctx context.Context) error {
		if err := env.Cluster.Apply(ctx, filepath.Join("testdata", "readers.yaml")); err != nil {
			return err
		}
		env.Flags = []string{kinds}
		return env.StartController(ctx)
	}))
}

var slurmBuilder = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "slurm-builder-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // the process keeps what it runs
	binary := filepath.Join(dir, "slurm")
	build := exec.Command("go", "build", "-o", binary, "./test/slurm")
	build.Dir = harness.SourceDir()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the builder: %w\n%s", err, out)
	}
	cmd := exec.Command(binary, "--kubeconfig", env.Cluster.Kubeconfig())
	cmd.Stderr = os.Stderr
	return cluster.StartChild(cmd)
})

// withBuilder makes a namespace, and sees to it that the builder of SlurmRuntimes runs. It
// ends with the process of the tests.
func withBuilder(t *testing.T) string {
	t.Helper()
	if err := slurmBuilder(); err != nil {
		t.Fatal(err)
	}
	return env.Namespace(t)
}

// runtimes of a resource, in a namespace or, with "", of the cluster.
func runtimes(resource, namespace string) dynamic.ResourceInterface {
	client := env.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

// publish creates an object out of YAML.
func publish(t *testing.T, client dynamic.ResourceInterface, document string) *unstructured.Unstructured {
	t.Helper()
	created, err := client.Create(t.Context(), parsed(t, document), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// parsed reads YAML as clients of unstructured objects do, integers as integers.
func parsed(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func newJob(namespace, name, kind string, opts ...builders.JobOption) *trainer.TrainJob {
	job := builders.TrainJob(name, append([]builders.JobOption{builders.OpaqueRuntime(group, kind, "big")}, opts...)...)
	job.Namespace = namespace
	return job
}

const slurmRuntime = `
apiVersion: slurm.example.com/v1
kind: SlurmRuntime
metadata: {name: big}
spec: {image: "slurm:1", command: [srun, train], nodes: 2}
`

// batch is the Job that the builder makes for a job, nil if there is none.
func batch(t *testing.T, namespace, name string) *batchv1.Job {
	t.Helper()
	job, err := env.Core.BatchV1().Jobs(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// play is what kubelets would do with the pods of a job: they are all in a phase by the
// time it returns.
func play(t *testing.T, namespace, name string, phase corev1.PodPhase, pods int) {
	t.Helper()
	harness.Eventually(t, harness.Soon, func() string {
		list, err := env.Core.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "slurm.example.com/trainjob=" + name})
		if err != nil {
			return err.Error()
		}
		done := 0
		for _, pod := range list.Items {
			if pod.DeletionTimestamp != nil {
				continue
			}
			pod.Status.Phase = phase
			ready := corev1.ConditionFalse
			if phase == corev1.PodRunning {
				ready = corev1.ConditionTrue
			}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
			if _, err := env.Core.CoreV1().Pods(namespace).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
			done++
		}
		if done != pods {
			return fmt.Sprintf("job %s has %d pods, want %d", name, done, pods)
		}
		return ""
	})
}

// awaitGone waits until nothing of a job is left, the builder's Job included.
func awaitGone(t *testing.T, namespace, name string) {
	t.Helper()
	env.AwaitGone(t, namespace, name)
	harness.Eventually(t, patience, func() string {
		if batch(t, namespace, name) != nil {
			return "the builder's Job is still there"
		}
		return ""
	})
}

// restart stops the controller and starts it with these flags, at the end of the test
// with those it had.
func restart(t *testing.T, flags ...string) {
	t.Helper()
	stop(t)
	env.Flags = flags
	if err := env.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stop stops the controller until the test starts it or ends.
func stop(t *testing.T) {
	t.Helper()
	before := env.Flags
	if err := env.StopController(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.StopController(); err != nil {
			t.Error(err)
		}
		env.Flags = before
		if err := env.StartController(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}
