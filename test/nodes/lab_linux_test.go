package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/test/cluster"
)

// labEnv is set by "make e2e": this takes the binaries of a cluster.
const labEnv = "TRAINJOB_E2E"

// The whole cluster is one story, told inside: its steps are in living.
func TestPodsRunAndNodesDieAndComeBack(t *testing.T) {
	if os.Getenv(labEnv) == "" {
		t.Skip("\"make e2e\" runs this")
	}
	if err := missing(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), enterEnv+"=lab")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(string(out))
}

// prepareLab builds what living needs.
func prepareLab() error {
	if _, err := cluster.Build(context.Background(), os.Stderr, "", Binaries...); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", ".", "-name", "pause", "-package", "./test/nodes/pause", "-user", "0:0", "-platforms", "linux/amd64",
		"-version", "v1.0.0", "-out", pauseArchive())
	cmd.Dir = filepath.Join("..", "..", "hack", "image")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func pauseArchive() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", ".local", "nodes"))
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "pause.tar")
}

// living is a short life of a cluster: pods start, a node is cut off and back, a node dies
// and is back.
func living(w World) int {
	options := cluster.Options{ControllerManager: true, Scheduler: true, Out: os.Stderr}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	l, err := w.Start(ctx, Options{Cluster: options, Images: []string{pauseArchive()}, SandboxImage: "docker.io/library/pause:v1.0.0"})
	if err != nil {
		return report(err)
	}
	steps := []struct {
		name string
		do   func(context.Context, *Lab) error
	}{
		{"a pod runs on each node", func(ctx context.Context, l *Lab) error { return l.runOnEach(ctx, "first") }},
		{"a node that is cut off is missed", func(ctx context.Context, l *Lab) error {
			if err := l.CutOff(Names[1]); err != nil {
				return err
			}
			return l.awaitReady(ctx, Names[1], corev1.ConditionUnknown)
		}},
		{"it is back", func(ctx context.Context, l *Lab) error {
			if err := l.Reconnect(Names[1]); err != nil {
				return err
			}
			return l.awaitReady(ctx, Names[1], corev1.ConditionTrue)
		}},
		{"a node that dies is missed", func(ctx context.Context, l *Lab) error {
			if err := l.KillNode(Names[0]); err != nil {
				return err
			}
			return l.awaitReady(ctx, Names[0], corev1.ConditionUnknown)
		}},
		{"it comes back and runs pods", func(ctx context.Context, l *Lab) error {
			if err := l.StartNode(ctx, Names[0]); err != nil {
				return err
			}
			return l.runOnEach(ctx, "second")
		}},
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.do(ctx, l); err != nil {
			return report(fmt.Errorf("%s: %w", step.name, err))
		}
		fmt.Fprintf(os.Stderr, "%s (%.1fs)\n", step.name, time.Since(begin).Seconds())
	}
	return 0
}

// runOnEach runs a pod on each node and waits until its container does.
func (l *Lab) runOnEach(ctx context.Context, name string) error {
	for _, node := range Names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node}, Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "pause", Image: "pause:v1.0.0"}},
		}}
		if _, err := l.core.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, node := range Names {
		err := await(ctx, func() error {
			pod, err := l.core.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name+"-"+node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
				return fmt.Errorf("pod %s is %s: %+v", pod.Name, pod.Status.Phase, pod.Status.ContainerStatuses)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits until a node's condition Ready has a status.
func (l *Lab) awaitReady(ctx context.Context, name string, want corev1.ConditionStatus) error {
	return await(ctx, func() error {
		node, err := l.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("node %s is not Ready=%s", name, want)
	})
}
