package nodes

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/trainjob/controller/test/cluster"
)

// nodeConfig is what the first process of a node is told, in a file of its folder.
type nodeConfig struct {
	Name, Dir, World string
	Address          string // on the bridge
	PodCIDR          string
	Routes           map[string]string // pods of other nodes: network to address
	Bin              string            // kubelet and kube-proxy
	CA, Kubeconfig   string
	ProxyKubeconfig  string
	Images           []string
	Gateway          string
	PodNetwork, CNI  string
	SandboxImage     string
}

const nodeConfigFile = "node.json"

// node is the first process of a node: it makes the node's view of the machine, starts
// its programs, and ends when one of them does, and every container with it.
func node(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, nodeConfigFile))
	if err != nil {
		return err
	}
	var n nodeConfig
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	for _, step := range []func() error{n.mount, n.writeConfigs, n.connect} {
		if err := step(); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	containerd, err := n.start("containerd", "containerd", "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	if err := n.importImages(); err != nil {
		return err
	}
	kubelet, err := n.start("kubelet", filepath.Join(n.Bin, cluster.Kubelet), "--config="+n.path("kubelet.yaml"),
		"--kubeconfig="+n.Kubeconfig, "--hostname-override="+n.Name, "--node-ip="+n.Address, "--v=2")
	if err != nil {
		return err
	}
	proxy, err := n.start("kube-proxy", filepath.Join(n.Bin, cluster.KubeProxy), proxyArgs(n.ProxyKubeconfig, n.Name, n.Address)...)
	if err != nil {
		return err
	}
	pid, status := reapUntil(containerd, kubelet, proxy)
	names := map[int]string{containerd: "containerd", kubelet: "kubelet", proxy: "kube-proxy"}
	return fmt.Errorf("node %s: %s ended (%v): see its log in %s", n.Name, names[pid], status, n.Dir)
}

// proxyArgs are those of kube-proxy; it must not change what is the kernel's.
func proxyArgs(kubeconfig, node, address string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--proxy-mode=nftables", "--hostname-override=" + node, "--bind-address=" + address,
		"--cluster-cidr=" + podNetwork, "--metrics-bind-address=" + proxyMetrics,
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	}
}

func (n nodeConfig) path(elem ...string) string {
	return filepath.Join(append([]string{n.Dir}, elem...)...)
}

// mount gives the node folders of its own where programs expect theirs.
func (n nodeConfig) mount() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	// Volumes of pods are propagated from the kubelet to containerd.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return err
	}
	if err := errors.Join(syscall.Mount("proc", "/proc", "proc", 0, ""), syscall.Sethostname([]byte(n.Name)),
		syscall.Mount("tmpfs", "/run", "tmpfs", 0, "")); err != nil {
		return err
	}
	for _, folder := range []string{"/run/lock", "/run/netns", "/run/containerd",
		n.path("lib", "kubelet"), n.path("lib", "containerd"), n.path("lib", "cni"), n.path("log"), n.path("cni")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(syscall.Mount(n.path("lib"), "/var/lib", "", syscall.MS_BIND, ""),
		syscall.Mount(n.path("log"), "/var/log", "", syscall.MS_BIND, "")); err != nil {
		return err
	}
	// The kubelet sets these for the whole kernel: it finds files that already say so.
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1"} {
		file := "/run/sysctl-" + strings.ReplaceAll(name, "/", "-")
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, "/proc/sys/"+name, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return makeGroups(n.World, n.Name)
}

//go:embed templates/*
var templates embed.FS

// writeConfigs fills in the configuration files of the node's programs.
func (n nodeConfig) writeConfigs() error {
	n.CNI = cniFolder
	all, err := template.ParseFS(templates, "templates/*")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		var out bytes.Buffer
		if err := t.Execute(&out, n); err != nil {
			return err
		}
		path := n.path(t.Name())
		if filepath.Ext(path) == ".conflist" {
			path = n.path("cni", t.Name())
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// connect waits until the node has been plugged in, and sets up its network.
func (n nodeConfig) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := await(ctx, func() error { _, err := os.Stat("/proc/sys/net/ipv4/conf/eth0"); return err })
	if err != nil {
		return err
	}
	commands := []string{"ip link set lo up", "ip addr add " + n.Address + "/24 dev eth0", "ip link set eth0 up", "ip route add default via " + n.Gateway}
	for network, via := range n.Routes {
		commands = append(commands, "ip route add "+network+" via "+via)
	}
	if err := runAll(commands...); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// importImages loads the images into containerd, once it answers.
func (n nodeConfig) importImages() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := await(ctx, func() error { return run("ctr", "version") }); err != nil {
		return err
	}
	for _, image := range n.Images {
		if err := run("ctr", "-n", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return qualifyImages()
}

// qualifyImages gives images whose names have no registry the names by which kubelets ask
// for them.
func qualifyImages() error {
	out, err := exec.Command("ctr", "-n", "k8s.io", "images", "list", "-q").Output()
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		if strings.Contains(name, "/") || strings.HasPrefix(name, "sha256:") {
			continue
		}
		if err := run("ctr", "-n", "k8s.io", "images", "tag", "--force", name, "docker.io/library/"+name); err != nil {
			return err
		}
	}
	return nil
}

// start starts a program of the node with its output in a log, and returns its pid.
func (n nodeConfig) start(name, binary string, args ...string) (int, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return 0, err
	}
	log, err := logTo(n.path(name + ".log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	p, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, log, log}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	return p.Pid, nil
}

// await tries something until it works; the last error is the context's reason.
func await(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
