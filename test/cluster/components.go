package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The ports of a cluster, by what listens there.
const (
	etcdPort        = "etcd"
	etcdPeerPort    = "etcd-peer"
	apiPort         = "kube-apiserver"
	controllersPort = "kube-controller-manager"
	schedulerPort   = "kube-scheduler"
	jobSetHealth    = "jobset-health"
	jobSetWebhook   = "jobset-webhook"
	kueueHealth     = "kueue-health"
	kueueWebhook    = "kueue-webhook"
)

// definition is what the cluster has to know about a component.
type definition struct {
	ports []string
	// user and groups are the identity in its kubeconfig; no user, no file.
	user   string
	groups []string
	// prepare writes what the component reads at its start.
	prepare func(context.Context, *Cluster) error
	args    func(*Cluster) []string
	// ready is asked until it says true; an error means "not yet", and is shown
	// if it stays that way.
	ready func(context.Context, *Cluster) error
}

var definitions = map[Component]definition{
	Etcd: {
		ports: []string{etcdPort, etcdPeerPort},
		args:  etcdArgs,
		ready: etcdReady,
	},
	APIServer: {
		ports:   []string{apiPort},
		prepare: prepareAPIServer,
		args:    apiServerArgs,
		ready:   func(ctx context.Context, c *Cluster) error { return c.get(ctx, c.server()+"/readyz") },
	},
	ControllerManager: {
		ports: []string{controllersPort},
		user:  "system:kube-controller-manager",
		args:  controllerManagerArgs,
		ready: controllerManagerReady,
	},
	Scheduler: {
		ports: []string{schedulerPort},
		user:  "system:kube-scheduler",
		args:  schedulerArgs,
		ready: func(ctx context.Context, c *Cluster) error {
			return c.get(ctx, c.url("https", schedulerPort)+"/readyz")
		},
	},
	JobSet: {
		ports: []string{jobSetHealth, jobSetWebhook},
		// A name of its own tells its requests apart in the audit log.
		user: "jobset-controller", groups: []string{adminGroup},
		prepare: writeJobSetConfig,
		args:    jobSetArgs,
		ready:   jobSetReady,
	},
	Kueue: {
		ports: kueuePorts,
		user:  "kueue", groups: []string{adminGroup},
		prepare: prepareKueue,
		args:    kueueArgs,
		ready:   kueueReady,
	},
	Kwok: {
		user: "kwok", groups: []string{adminGroup},
		prepare: prepareNodes,
		args:    kwokArgs,
		ready:   nodesReady,
	},
}

func etcdArgs(c *Cluster) []string {
	client := c.url("http", etcdPort)
	return []string{
		"--name=" + c.etcdName(),
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + c.url("http", etcdPeerPort),
		"--log-level=warn",
		"--quota-backend-bytes=8589934592",
		// A cluster is thrown away, not recovered.
		"--unsafe-no-fsync",
	}
}

// etcdName is unique on this machine, so that etcdReady can tell our etcd from
// another that was faster at the same port.
func (c *Cluster) etcdName() string {
	return fmt.Sprintf("etcd-%x", sha256.Sum256([]byte(c.dir)))
}

func etcdReady(ctx context.Context, c *Cluster) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url("http", etcdPort)+"/v3/cluster/member/list", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	body, err := fetch(http.DefaultClient, request)
	if err != nil {
		return err
	}
	var list struct {
		Members []struct{ Name string } `json:"members"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("etcd's member list: %w", err)
	}
	if len(list.Members) != 1 || list.Members[0].Name != c.etcdName() {
		return fmt.Errorf("another etcd answers on port %d: %w", c.port(etcdPort), errPortTaken)
	}
	return c.get(ctx, c.url("http", etcdPort)+"/health")
}

func apiServerArgs(c *Cluster) []string {
	args := []string{
		"--etcd-servers=" + c.url("http", etcdPort),
		fmt.Sprintf("--secure-port=%d", c.port(apiPort)),
		"--tls-cert-file=" + c.pki("tls.crt"),
		"--tls-private-key-file=" + c.pki("tls.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-account-key-file=" + c.pki("sa.pub"),
		"--service-account-signing-key-file=" + c.pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
	}
	args = append(args, c.apiServerReach()...)
	if c.opts.EnforceOwnerReferences {
		args = append(args, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
	}
	if c.opts.AuditLog {
		args = append(args,
			"--audit-policy-file="+c.path(auditPolicyFile),
			"--audit-log-path="+c.auditFile(),
			"--audit-log-maxsize=4096", // megabytes: a rotation would hide events from the reader
		)
	}
	return append(args, c.opts.APIServerFlags...)
}

// apiServerReach are the arguments that say who can reach the API server, and whom it
// reaches.
func (c *Cluster) apiServerReach() []string {
	if c.opts.Address == "" {
		return []string{
			"--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1",
			// No pod has to find the API server, and its address is not one that
			// endpoints may hold.
			"--endpoint-reconciler-type=none",
			"--authorization-mode=RBAC",
			// Pods then need no token volume, which nobody here could mount.
			"--disable-admission-plugins=ServiceAccount",
		}
	}
	return []string{
		"--bind-address=0.0.0.0",
		"--advertise-address=" + c.opts.Address,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + c.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// prepareAPIServer writes the audit policy and, where there are real nodes, the
// certificate with which the API server asks kubelets for logs.
func prepareAPIServer(ctx context.Context, c *Cluster) error {
	if err := writeAuditPolicy(ctx, c); err != nil || c.opts.Address == "" {
		return err
	}
	client, err := c.ca.client("kube-apiserver-kubelet-client", adminGroup)
	if err != nil {
		return err
	}
	return errors.Join(writeFile(c.pki("kubelet-client.crt"), client.cert, 0o600), writeFile(c.pki("kubelet-client.key"), client.key, 0o600))
}

func controllerManagerArgs(c *Cluster) []string {
	args := []string{
		"--kubeconfig=" + c.kubeconfigOf(ControllerManager),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.port(controllersPort)),
		"--tls-cert-file=" + c.pki("tls.crt"),
		"--tls-private-key-file=" + c.pki("tls.key"),
		"--service-account-private-key-file=" + c.pki("sa.key"),
		"--root-ca-file=" + c.pki("ca.crt"),
		"--leader-elect=false",
		// As in real clusters: each controller has its own user and rights.
		"--use-service-account-credentials=true",
		"--concurrent-job-syncs=20",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		// A machine that is busy for a minute must not lose its nodes.
		"--node-monitor-grace-period=10m",
		// It creates this folder, by default among the system's own.
		"--flex-volume-plugin-dir=" + c.path("volume-plugins"),
	}
	return append(args, c.opts.ControllerManagerFlags...)
}

// controllerManagerReady goes by a thing that only running controllers make.
func controllerManagerReady(ctx context.Context, c *Cluster) error {
	if err := c.get(ctx, c.url("https", controllersPort)+"/healthz"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func schedulerArgs(c *Cluster) []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigOf(Scheduler),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.port(schedulerPort)),
		"--tls-cert-file=" + c.pki("tls.crt"),
		"--tls-private-key-file=" + c.pki("tls.key"),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func kwokArgs(c *Cluster) []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigOf(Kwok),
		"--config=" + c.path(stagesFile),
		"--manage-nodes-with-annotation-selector=" + kwokNodeAnnotation + "=fake",
		"--cidr=10.244.0.0/16",
		"--node-ip=10.0.1.1",
		"--node-lease-duration-seconds=40",
	}
}

// environment is what components inherit: ours, less the variables that speak
// to programs like them but are meant for the code under test. Among those is
// the check for changed cache objects, which makes a controller manager crawl.
func (c *Cluster) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBE") || strings.HasPrefix(variable, "KWOK_")
	})
	return append(env, "KWOK_WORKDIR="+c.path("kwok"))
}

// get succeeds if the address answers 200 and, for https, with a certificate
// of this cluster.
func (c *Cluster) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	_, err = fetch(c.probe, request)
	return err
}

// newProbe is the client for readiness checks: it trusts the cluster's
// authority alone and, knowing the admin, may read every health endpoint.
func newProbe(ca *authority, admin *rest.Config) (*http.Client, error) {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	certificate, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return nil, fmt.Errorf("load the admin's certificate: %w", err)
	}
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
		},
	}, nil
}

func fetch(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", request.URL, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", request.URL, response.Status, lastLines(string(bytes.TrimSpace(body)), 5))
	}
	return body, nil
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) pki(name string) string { return c.path("pki", name) }

func (c *Cluster) kubeconfigOf(name Component) string {
	return c.path("pki", string(name)+".kubeconfig")
}

// LogFile is where a component's output is.
func (c *Cluster) LogFile(name Component) string { return c.path("logs", string(name)+".log") }

func (c *Cluster) url(scheme, port string) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, c.port(port))
}

// EtcdURL is where etcd answers, without encryption and on loopback only: for who wants
// to fill a cluster with more objects than the API server would take in a short time.
func (c *Cluster) EtcdURL() string { return c.url("http", etcdPort) }

// server is the address that kubeconfigs name.
func (c *Cluster) server() string {
	if c.opts.Address != "" {
		return fmt.Sprintf("https://%s:%d", c.opts.Address, c.port(apiPort))
	}
	return c.url("https", apiPort)
}
