package failover

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// replica is a controller with a token of its own, behind a line that can be held.
type replica struct {
	*harness.Controller
	credential string
	line       *line
}

// startReplica starts one more and returns when it could work.
func startReplica(t *testing.T, logFile string) *replica {
	t.Helper()
	kubeconfig, credential := env.NewIdentity(t)
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{credential: credential}
	for _, c := range config.Clusters {
		if r.line, err = newLine(c.Server); err != nil {
			t.Fatal(err)
		}
		c.Server = "https://" + r.line.listener.Addr().String()
	}
	t.Cleanup(r.line.close)
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.Controller, err = harness.LaunchController(env.Binary, kubeconfig, logFile, deployedFlags(t)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Kill() })
	if err := r.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// deployedFlags are those of the Deployment that are about the lease.
func deployedFlags(t *testing.T) []string {
	t.Helper()
	data := readFile(t, filepath.Join(harness.SourceDir(), "artifacts", "deploy", "base", "deployment.yaml"))
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		t.Fatal(err)
	}
	flags := slices.DeleteFunc(d.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return !strings.HasPrefix(arg, "--leader-elect-") || strings.Contains(arg, "$(")
	})
	if len(flags) != 3 {
		t.Fatalf("the Deployment's flags about the lease are %v, want three", flags)
	}
	return append(flags, "--webhook=false") // both would listen on one port
}

// leaseDuration is how long the Deployment's lease lasts.
func leaseDuration(t *testing.T) time.Duration {
	t.Helper()
	for _, flag := range deployedFlags(t) {
		if value, found := strings.CutPrefix(flag, "--leader-elect-lease-duration="); found {
			lease, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
	}
	t.Fatal("the Deployment sets no duration of the lease")
	return 0
}

// takeover waits until the lease is granted to one that is not the old leader, and says
// when.
func takeover(t *testing.T, old *replica, after cluster.AuditPosition) time.Time {
	t.Helper()
	var at time.Time
	harness.Eventually(t, time.Minute, func() string {
		for _, e := range leaseWrites(t, after) {
			if e.Credential != old.credential {
				at = e.Received
				return ""
			}
		}
		return "nobody has taken the lease over"
	})
	return at
}

// leaderOf is the replica that renews the lease.
func leaderOf(t *testing.T, replicas []*replica) (leader, standby *replica) {
	t.Helper()
	after := env.AuditNow(t)
	harness.Eventually(t, time.Minute, func() string {
		writes := leaseWrites(t, after)
		if len(writes) == 0 {
			return "nobody writes to the lease"
		}
		last := writes[len(writes)-1].Credential
		at := slices.IndexFunc(replicas, func(r *replica) bool { return r.credential == last })
		if at < 0 {
			return "the lease was last written by a replica that is gone"
		}
		leader, standby = replicas[at], replicas[1-at]
		return ""
	})
	return leader, standby
}

func leaseWrites(t *testing.T, after cluster.AuditPosition) []cluster.AuditEvent {
	t.Helper()
	return env.Audit(t, after, cluster.AuditFilter{
		User: harness.ControllerUser, Resource: "leases", Writes: true,
		Match: func(e cluster.AuditEvent) bool { return e.Code < 300 },
	})
}

// cutLease takes the rights to the lease away, from all replicas as they are one account,
// and returns what gives them back.
func cutLease(t *testing.T) (restore func()) {
	t.Helper()
	roles := env.Core.RbacV1().Roles(harness.SystemNamespace)
	role, err := roles.Get(t.Context(), harness.ServiceAccount, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := role.Rules
	role.Rules = []rbacv1.PolicyRule{}
	if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		role.Rules = rules
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// line is a TCP connection to the API server that can hold back what a client sends, as a
// slow network would, without losing any of it.
type line struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	free *sync.Cond
	held bool
}

func newLine(server string) (*line, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{listener: listener, target: target.Host}
	l.free = sync.NewCond(&l.mu)
	go l.accept()
	return l, nil
}

func (l *line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			client.Close()
			continue
		}
		go l.forward(server, client, true)
		go l.forward(client, server, false)
	}
}

// forward copies until one side ends, and ends the other.
func (l *line) forward(to, from net.Conn, gated bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if gated {
			l.pass()
		}
		if n > 0 {
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the line is held.
func (l *line) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held {
		l.free.Wait()
	}
}

func (l *line) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	l.free.Broadcast()
}

func (l *line) close() {
	l.hold(false)
	if err := l.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
}
