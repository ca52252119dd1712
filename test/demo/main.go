// Command demo shows one TrainJob's life on the local control plane, from `kubectl
// apply` to Complete. Its exit code is 0 only if the job completed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir := flag.String("dir", filepath.Join(".local", "cluster"), "`folder` of the local control plane")
	example := flag.String("example", filepath.Join("artifacts", "examples", "torch.yaml"), "`file` with the TrainJob to submit")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long the job may take")
	flag.Parse()

	source := harness.SourceDir()
	step("building the controller")
	bin := filepath.Join(source, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	binary, err := harness.Build(ctx, source, bin, false)
	if err != nil {
		return err
	}
	c, stopCluster, err := controlPlane(ctx, *dir)
	if err != nil {
		return err
	}
	// Whatever goes wrong, a Ctrl-C too, nothing that was started here stays behind.
	// After a success the control plane stays, for whoever wants to look around.
	defer func() {
		if err != nil {
			err = errors.Join(err, stopCluster())
		}
	}()

	kubectl, err := cluster.FindBinary(ctx, os.Stderr, "", "kubectl")
	if err != nil {
		return err
	}
	k := tool{kubectl: kubectl, kubeconfig: c.Kubeconfig()}
	step("installing CRDs and runtimes, starting the controller")
	if err := c.InstallCRDs(ctx, filepath.Join(source, "artifacts", "crds")); err != nil {
		return err
	}
	if err := k.run(ctx, "apply", "--kustomize", filepath.Join(source, "artifacts", "runtimes")); err != nil {
		return err
	}
	if err := harness.GrantRights(ctx, c); err != nil {
		return err
	}
	local := filepath.Join(source, ".local")
	kubeconfig, logFile := filepath.Join(local, "controller.kubeconfig"), filepath.Join(local, "controller.log")
	if _, err := harness.WriteControllerKubeconfig(ctx, c, kubeconfig); err != nil {
		return err
	}
	controller, err := harness.StartController(ctx, binary, kubeconfig, logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, controller.Stop()) }()

	story, err := newStory(c.RESTConfig(), filepath.Join(source, *example))
	if err != nil {
		return err
	}
	if err := story.clear(ctx); err != nil {
		return err
	}
	step("submitting %s", *example)
	if err := k.run(ctx, "apply", "--filename", filepath.Join(source, *example)); err != nil {
		return err
	}
	if err := story.tell(ctx, *timeout); err != nil {
		return fmt.Errorf("%w\nthe controller's log is %s", err, logFile)
	}
	return epilogue(ctx, k, story.namespace)
}

// controlPlane finds or starts the local control plane. The function returned stops
// it, unless it ran before.
func controlPlane(ctx context.Context, dir string) (*cluster.Cluster, func() error, error) {
	unlock, err := cluster.Lock(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	c, err := cluster.Resume(ctx, dir, os.Stderr)
	if err == nil {
		step("using the local control plane that is there already")
		return c, func() error { return nil }, nil
	}
	if !errors.Is(err, cluster.ErrNotRunning) {
		return nil, nil, err
	}
	step("starting the local control plane (the first time it is built, which takes some minutes)")
	if err := cluster.Remove(dir); err != nil {
		return nil, nil, err
	}
	options := cluster.FullStack()
	options.Dir, options.Persistent, options.Out = dir, true, os.Stderr
	options.EnforceOwnerReferences = true
	options.CRDDirs = []string{filepath.Join(harness.SourceDir(), "artifacts", "crds")}
	c, err = cluster.Start(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	return c, func() error { return cluster.Remove(dir) }, nil
}

// tool runs kubectl against the local control plane.
type tool struct{ kubectl, kubeconfig string }

func (k tool) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, k.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %v: %w", args, err)
	}
	return nil
}

func epilogue(ctx context.Context, k tool, namespace string) error {
	fmt.Println("\n$ kubectl get tj,jobset,cm,pod")
	if err := k.run(ctx, "get", "trainjobs,jobsets,configmaps,pods", "--namespace", namespace); err != nil {
		return err
	}
	fmt.Printf(`
The control plane is still running, the controller is not. To go on by hand:
  export KUBECONFIG=%s
  make run                                          # the controller, in this terminal; Ctrl-C ends it
  kubectl apply -f artifacts/examples/suspended.yaml  # in another terminal
  kubectl get tj -o wide
  kubectl describe tj suspended
  make local-down                                   # stops the control plane
`, k.kubeconfig)
	return nil
}

func step(format string, args ...any) {
	fmt.Printf("== "+format+"\n", args...)
}
