package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// What is built like the components, but only for those who ask for it.
const (
	kubectl = "kubectl"
	// Kubelet, KubeProxy and CoreDNS are what real nodes take; see test/nodes.
	Kubelet   = "kubelet"
	KubeProxy = "kube-proxy"
	CoreDNS   = "coredns"
)

// target is one binary and where its source comes from.
type target struct {
	binary string
	module string // folder under hack/cluster
	pkg    string
	coarse string // what a first build takes on two cores, to set expectations
}

var targets = []target{
	{string(Etcd), "kubernetes", "go.etcd.io/etcd/server/v3", "half a minute"},
	{string(APIServer), "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "5 minutes"},
	{string(ControllerManager), "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", "2 minutes"},
	{string(Scheduler), "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "15 seconds"},
	{string(JobSet), "jobset", "sigs.k8s.io/jobset", "a minute and a half"},
	{string(Kueue), "kueue", "sigs.k8s.io/kueue/cmd/kueue", "4 minutes"},
	{string(Kwok), "kwok", "sigs.k8s.io/kwok/cmd/kwok", "a minute"},
	{kubectl, "kubernetes", "k8s.io/kubernetes/cmd/kubectl", "half a minute"},
	{Kubelet, "kubernetes", "k8s.io/kubernetes/cmd/kubelet", "2 minutes"},
	{KubeProxy, "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", "half a minute"},
	{CoreDNS, "coredns", ".", "a minute"},
}

// copied lists the manifests taken over from a component's module, so that
// they always fit the binary built from it. Of a folder, all its files become one.
var copied = []struct{ module, path, from, to string }{
	{"jobset", "sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml", jobSetCRDFile},
	{"jobset", "sigs.k8s.io/jobset", "config/components/webhook/manifests.yaml", jobSetWebhookFile},
	{"kueue", "sigs.k8s.io/kueue", "config/components/crd/bases", kueueCRDFile},
	{"kueue", "sigs.k8s.io/kueue", "config/components/webhook/manifests.yaml", kueueWebhookFile},
}

// ldflags strips debug data and tells the Kubernetes binaries their version,
// without which they and kubectl refuse or warn about each other.
const ldflags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// kubernetesVersion repeats what hack/cluster/kubernetes/go.mod pins; a test
// holds them together.
const kubernetesVersion = "v1.37.2"

// Build makes sure that the named binaries, all of the components if none are
// named, exist in the cache folder and returns that folder. It writes a line to
// out when it starts and when it ends a binary. Several processes may call it
// at once: one builds, the others wait.
func Build(ctx context.Context, out io.Writer, sourceDir string, binaries ...string) (string, error) {
	root, err := findSource(sourceDir)
	if err != nil {
		return "", err
	}
	dir, err := cacheDir(root)
	if err != nil {
		return "", err
	}
	b := builder{root: root, dir: dir, out: out}
	if len(b.missing(binaries)) == 0 {
		return dir, nil
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, ".lock"), func() {
		fmt.Fprintln(out, "cluster: waiting for another process to finish its build")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	// Whoever held the lock before may have built what was missing.
	return dir, b.build(ctx, b.missing(binaries))
}

type builder struct {
	root, dir string
	out       io.Writer
}

// missing returns the wanted targets that the cache folder lacks. The copied
// manifests count as part of their module's binary.
func (b builder) missing(binaries []string) []target {
	var missing []target
	for _, t := range targets {
		if !wanted(t.binary, binaries) {
			continue
		}
		files := []string{t.binary}
		for _, c := range copied {
			if c.module == t.module {
				files = append(files, c.to)
			}
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(b.dir, f)); err != nil {
				missing = append(missing, t)
				break
			}
		}
	}
	return missing
}

func wanted(binary string, binaries []string) bool {
	if len(binaries) == 0 {
		return !slices.Contains([]string{kubectl, Kubelet, KubeProxy, CoreDNS}, binary)
	}
	return slices.Contains(binaries, binary)
}

func (b builder) build(ctx context.Context, missing []target) error {
	for i, t := range missing {
		fmt.Fprintf(b.out, "cluster: building %s (%d of %d); the very first time takes about %s\n", t.binary, i+1, len(missing), t.coarse)
		start := time.Now()
		if err := b.compile(ctx, t); err != nil {
			return err
		}
		if err := b.copyManifests(ctx, t.module); err != nil {
			return err
		}
		fmt.Fprintf(b.out, "cluster: built %s (%d of %d) in %s\n", t.binary, i+1, len(missing), time.Since(start).Round(time.Second))
	}
	return nil
}

// compile builds beside the final name and renames, so that a binary is there
// complete or not at all.
func (b builder) compile(ctx context.Context, t target) error {
	partial := filepath.Join(b.dir, t.binary+".partial")
	defer os.Remove(partial)
	if _, err := b.goCommand(ctx, t.module, "build", "-ldflags", ldflags, "-o", partial, t.pkg); err != nil {
		return fmt.Errorf("build %s: %w", t.binary, err)
	}
	return os.Rename(partial, filepath.Join(b.dir, t.binary))
}

func (b builder) copyManifests(ctx context.Context, module string) error {
	for _, c := range copied {
		if c.module != module {
			continue
		}
		folder, err := b.goCommand(ctx, module, "list", "-m", "-f", "{{.Dir}}", c.path)
		if err != nil {
			return fmt.Errorf("find the sources of %s: %w", c.path, err)
		}
		data, err := readJoined(filepath.Join(folder, c.from))
		if err != nil {
			return fmt.Errorf("copy a manifest of %s: %w", c.path, err)
		}
		if err := writeFile(filepath.Join(b.dir, c.to), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readJoined is a file, or the YAML files of a folder one after the other.
func readJoined(path string) ([]byte, error) {
	files, err := manifestFiles(path)
	if err != nil {
		return nil, err
	}
	var joined []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		joined = append(append(joined, data...), "\n---\n"...)
	}
	return joined, nil
}

// goCommand runs the go tool in a nested module and returns its output. The
// caller's flags, workspace and cross-compilation settings are meant for other
// code and are kept away.
func (b builder) goCommand(ctx context.Context, module string, args ...string) (string, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("the go command is needed to build the local control plane; put it on PATH: %w", err)
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = filepath.Join(b.root, nestedModules, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], cmd.Dir, err, lastLines(stderr.String(), 20))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// nestedModules is where the pinned components' go.mod files are.
var nestedModules = filepath.Join("hack", "cluster")

// findSource returns the root of this module's source tree.
func findSource(dir string) (string, error) {
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("find the source tree: %w", err)
		}
		dir = wd
	}
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, nestedModules, "kubernetes", "go.mod")); err == nil {
			return filepath.Abs(at)
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no %s above %s: run inside the source tree or set Options.SourceDir", nestedModules, dir)
		}
	}
}

// FindBinary returns the path of a binary in PATH, else in the cache folder,
// where it is built if need be. It is how the command line gets its kubectl.
func FindBinary(ctx context.Context, out io.Writer, sourceDir, binary string) (string, error) {
	path, err := exec.LookPath(binary)
	if err == nil {
		return filepath.Abs(path)
	}
	if !errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("look for %s: %w", binary, err)
	}
	dir, err := Build(ctx, out, sourceDir, binary)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, binary), nil
}

// ModuleDir is the folder with the sources of a module that a nested module under
// hack/cluster pins, for tests that need the CRDs of somebody else's.
func ModuleDir(ctx context.Context, sourceDir, nested, module string) (string, error) {
	root, err := findSource(sourceDir)
	if err != nil {
		return "", err
	}
	b := builder{root: root}
	if _, err := b.goCommand(ctx, nested, "mod", "download", module); err != nil {
		return "", err
	}
	return b.goCommand(ctx, nested, "list", "-m", "-f", "{{.Dir}}", module)
}
