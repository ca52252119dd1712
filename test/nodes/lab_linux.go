package nodes

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/trainjob/controller/test/cluster"
)

// Binaries are what Start needs of package cluster's, besides those of a control plane.
// A caller's prepare builds them: inside nothing can be downloaded.
var Binaries = []string{string(cluster.Etcd), string(cluster.APIServer), string(cluster.ControllerManager), string(cluster.Scheduler),
	string(cluster.JobSet), cluster.Kubelet, cluster.KubeProxy, cluster.CoreDNS, "kubectl"}

// Options says what a cluster with real nodes consists of.
type Options struct {
	// Cluster is the control plane. Simulated nodes cannot be had at the same time.
	Cluster cluster.Options
	// Images are OCI archives that every node has from the start.
	Images []string
	// SandboxImage is the name of the one among them that sandboxes of pods run.
	SandboxImage string
}

// Names of the nodes.
var Names = []string{"n1", "n2"}

// Lab is a cluster with real nodes.
type Lab struct {
	*cluster.Cluster
	dir   string
	bin   string
	out   io.Writer
	core  kubernetes.Interface
	nodes map[string]*exec.Cmd
}

// NodeReady is how long a node may take until it is ready, on a machine that is busy.
const NodeReady = 3 * time.Minute

// Start starts a control plane and its nodes, and returns when pods can run. Everything
// ends with the world.
func (w World) Start(ctx context.Context, o Options) (*Lab, error) {
	o.Cluster.Dir, o.Cluster.Address, o.Cluster.Kwok = filepath.Join(w.Dir, "cluster"), gateway, false
	// A node that cannot be reached loses its pods within half a minute.
	o.Cluster.ControllerManagerFlags = append([]string{"--node-monitor-grace-period=16s", "--node-monitor-period=2s"}, o.Cluster.ControllerManagerFlags...)
	o.Cluster.APIServerFlags = append([]string{"--default-not-ready-toleration-seconds=5", "--default-unreachable-toleration-seconds=5"}, o.Cluster.APIServerFlags...)
	out := discardIfNil(o.Cluster.Out)
	bin, err := cluster.Build(ctx, out, o.Cluster.SourceDir, Binaries...)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, o.Cluster)
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, err
	}
	l := &Lab{Cluster: c, dir: w.Dir, bin: bin, out: out, core: core, nodes: map[string]*exec.Cmd{}}
	if err := l.startDNS(ctx); err != nil {
		return nil, fmt.Errorf("start CoreDNS: %w", err)
	}
	for i, name := range Names {
		if err := l.prepareNode(i, name, o); err != nil {
			return nil, err
		}
		if err := l.launch(name); err != nil {
			return nil, err
		}
	}
	for _, name := range Names {
		if err := l.AwaitNode(ctx, name); err != nil {
			return nil, err
		}
	}
	return l, l.startProxy()
}

// prepareNode writes what a node is told.
func (l *Lab) prepareNode(i int, name string, o Options) error {
	n := nodeConfig{
		Name: name, Dir: filepath.Join(l.dir, name), World: filepath.Base(l.dir), Gateway: gateway, PodNetwork: podNetwork,
		Address: nodeAddress(i), PodCIDR: podCIDR(i), Routes: map[string]string{}, Bin: l.bin,
		CA: filepath.Join(l.Dir(), "pki", "ca.crt"), Images: o.Images, SandboxImage: o.SandboxImage,
	}
	for j := range Names {
		if i != j {
			n.Routes[podCIDR(j)] = nodeAddress(j)
		}
	}
	n.Kubeconfig, n.ProxyKubeconfig = filepath.Join(n.Dir, "kubelet.kubeconfig"), filepath.Join(n.Dir, "proxy.kubeconfig")
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(n.Dir, 0o755), os.WriteFile(filepath.Join(n.Dir, nodeConfigFile), data, 0o644),
		l.WriteKubeconfig(n.Kubeconfig, "system:node:"+name, "system:nodes"),
		l.WriteKubeconfig(n.ProxyKubeconfig, "system:kube-proxy"))
}

func nodeAddress(i int) string { return fmt.Sprintf("10.250.0.%d", 11+i) }

func podCIDR(i int) string { return fmt.Sprintf("10.244.%d.0/24", 1+i) }

// launch switches a node on and plugs it in.
func (l *Lab) launch(name string) error {
	dir := filepath.Join(l.dir, name)
	cmd, err := again(stageNode, dir, &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true})
	if err != nil {
		return err
	}
	log, err := logTo(filepath.Join(dir, "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", name, err)
	}
	l.nodes[name] = cmd
	i := index(name)
	return runAll(
		fmt.Sprintf("ip link add name %s type veth peer name eth0 netns %d", name, cmd.Process.Pid),
		fmt.Sprintf("ip link set %s master %s up", name, bridge),
		fmt.Sprintf("ip route replace %s via %s", podCIDR(i), nodeAddress(i)),
	)
}

func index(name string) int {
	for i, each := range Names {
		if each == name {
			return i
		}
	}
	panic("there is no node " + name)
}

// AwaitNode waits until a node is ready.
func (l *Lab) AwaitNode(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, NodeReady, fmt.Errorf("node %s is not ready after %s", name, NodeReady))
	defer cancel()
	begin := time.Now()
	err := await(ctx, func() error {
		node, err := l.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == corev1.ConditionTrue {
					return nil
				}
				return errors.New(c.Message)
			}
		}
		return errors.New("no condition Ready yet")
	})
	if err == nil {
		fmt.Fprintf(l.out, "nodes: %s ready in %.1fs\n", name, time.Since(begin).Seconds())
		return nil
	}
	said, _ := os.ReadFile(filepath.Join(l.dir, name, "node.log")) // no log, nothing said
	return fmt.Errorf("%w\n%s", err, said)
}

// KillNode switches a node off: everything on it ends at once.
func (l *Lab) KillNode(name string) error {
	cmd := l.nodes[name]
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait() // killed, as it says
	return nil
}

// StartNode switches a node on that has been killed.
func (l *Lab) StartNode(ctx context.Context, name string) error {
	if err := l.launch(name); err != nil {
		return err
	}
	return l.AwaitNode(ctx, name)
}

// CutOff pulls the plug of a node's network. Its pods go on.
func (l *Lab) CutOff(name string) error { return run("ip", "link", "set", name, "down") }

// Reconnect puts it back.
func (l *Lab) Reconnect(name string) error { return run("ip", "link", "set", name, "up") }

// startProxy lets the API server reach Services, as it does where it runs on a node. There
// is no node here: the proxy goes by the first one's name.
func (l *Lab) startProxy() error {
	kubeconfig := filepath.Join(l.dir, Names[0], "proxy.kubeconfig")
	return l.child(cluster.KubeProxy, proxyArgs(kubeconfig, Names[0], gateway)...)
}

// child starts a program beside the control plane.
func (l *Lab) child(binary string, args ...string) error {
	log, err := logTo(l.LogFile(cluster.Component(binary)))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(l.bin, binary), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cluster.StartChild(cmd); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // its log says how it ended
	return nil
}

//go:embed dns/Corefile
var corefile string

// startDNS starts the cluster's DNS, at the gateway of the nodes.
func (l *Lab) startDNS(ctx context.Context) error {
	const user = "coredns"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
	}}
	if _, err := l.core.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	if _, err := l.core.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	kubeconfig, file := filepath.Join(l.dir, "coredns.kubeconfig"), filepath.Join(l.dir, "Corefile")
	if err := l.WriteKubeconfig(kubeconfig, user); err != nil {
		return err
	}
	t, err := template.New("Corefile").Parse(corefile)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]string{"Gateway": gateway, "Kubeconfig": kubeconfig}); err != nil {
		return err
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		return err
	}
	if err := l.child(cluster.CoreDNS, "-conf", file); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return await(ctx, func() error {
		response, err := http.Get("http://127.0.0.1:8181/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}
