package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Files taken over from Kueue's module, relative to the cache folder.
const (
	kueueCRDFile     = "manifests/kueue-crds.yaml"
	kueueWebhookFile = "manifests/kueue-webhooks.yaml"
)

// Names that Kueue looks for.
const (
	kueueNamespace = "kueue-system"
	kueueService   = "kueue-webhook-service"
	kueueSecret    = "kueue-webhook-server-cert"
	kueueAuthority = "kueue-ca"
)

var kueuePorts = []string{kueueHealth, kueueWebhook}

// kueueGroups are the API groups of what Kueue manages here: its own objects and
// the kinds of its integrations in kueueConfig.
var kueueGroups = []string{"kueue.x-k8s.io", "trainer.kubeflow.org", "jobset.x-k8s.io", "batch"}

// Kueue manages its certificates itself: without that it reads those of its
// metrics, which it does not serve here, from a fixed folder of the system.
var kueueConfig = template.Must(template.New("kueue").Parse(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: ` + kueueNamespace + `
leaderElection: {leaderElect: false}
internalCertManagement:
  enable: true
  webhookServiceName: ` + kueueService + `
  webhookSecretName: ` + kueueSecret + `
webhook: {host: 127.0.0.1, port: {{.WebhookPort}}, certDir: {{printf "%q" .Keys}}}
health: {healthProbeBindAddress: "127.0.0.1:{{.HealthPort}}"}
metrics: {bindAddress: "0"}
clientConnection: {qps: 500, burst: 500}
featureGates: {VisibilityOnDemand: false}
{{- if .PodsReady}}
waitForPodsReady:
  timeout: {{.PodsReady}}
  requeuingStrategy: {backoffBaseSeconds: 1, backoffMaxSeconds: 5}
{{- end}}
integrations:
  frameworks: [batch/job, jobset.x-k8s.io/jobset, trainer.kubeflow.org/trainjob]
`))

// prepareKueue writes what Kueue reads and registers its webhooks, whose port may
// have changed since its CRDs were installed.
func prepareKueue(ctx context.Context, c *Cluster) error {
	var config bytes.Buffer
	err := kueueConfig.Execute(&config, map[string]any{
		"WebhookPort": c.port(kueueWebhook), "HealthPort": c.port(kueueHealth), "Keys": c.path("kueue"), "PodsReady": c.opts.KueuePodsReady,
	})
	if err != nil {
		return fmt.Errorf("write Kueue's configuration: %w", err)
	}
	if err := writeFile(c.path("kueue.yaml"), config.Bytes(), 0o644); err != nil {
		return err
	}
	if err := c.installKueueCRDs(ctx); err != nil {
		return err
	}
	keys, err := c.kueueKeys()
	if err != nil {
		return err
	}
	if err := c.storeKueueKeys(ctx, keys); err != nil {
		return err
	}
	configurations, err := c.webhooksByURL(kueueWebhookFile, "kueue-", kueueWebhook, keys["ca.crt"], ofKueueGroups)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		if err := apply(ctx, client.Resource(webhookResource(configuration)), configuration); err != nil {
			return err
		}
	}
	return nil
}

// ofKueueGroups tells whether a webhook is for what Kueue manages here.
func ofKueueGroups(hook map[string]any) bool {
	rules, _, _ := unstructured.NestedSlice(hook, "rules")
	for _, entry := range rules {
		rule, _ := entry.(map[string]any)
		groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
		if len(groups) == 0 || slices.ContainsFunc(groups, func(group string) bool { return !slices.Contains(kueueGroups, group) }) {
			return false
		}
	}
	return len(rules) > 0
}

func kueueArgs(c *Cluster) []string {
	return []string{
		"--config=" + c.path("kueue.yaml"),
		"--kubeconfig=" + c.kubeconfigOf(Kueue),
		"--zap-log-level=2",
	}
}

func kueueReady(ctx context.Context, c *Cluster) error {
	return c.get(ctx, c.url("http", kueueHealth)+"/readyz")
}

// installKueueCRDs installs Kueue's CRDs, those that Kueue converts between
// versions with its port as the place where it does that.
func (c *Cluster) installKueueCRDs(ctx context.Context) error {
	if c.port(kueueWebhook) == 0 {
		if err := c.choosePorts(kueuePorts); err != nil {
			return err
		}
	}
	keys, err := c.kueueKeys()
	if err != nil {
		return err
	}
	crds, err := readManifests(filepath.Join(c.binDir, kueueCRDFile))
	if err != nil {
		return err
	}
	converted := []string{"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"}
	for _, crd := range crds {
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		if !slices.Contains(converted, plural) {
			continue
		}
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"url":      c.url("https", kueueWebhook) + "/convert",
				"caBundle": base64.StdEncoding.EncodeToString(keys["ca.crt"]),
			},
		}}
		if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
			return fmt.Errorf("set the conversion of %s: %w", crd.GetName(), err)
		}
	}
	return c.installCRDs(ctx, crds)
}

// kueueKeys are the keys of Kueue's webhooks by their names in its Secret. Kueue
// takes them for its own because the authority has the name and the kind of key that
// it would give it; with its own it would not be reached by address.
func (c *Cluster) kueueKeys() (map[string][]byte, error) {
	keys := map[string][]byte{}
	for _, name := range []string{"ca.crt", "ca.key", "tls.crt", "tls.key"} {
		data, err := os.ReadFile(c.path("kueue", name))
		if os.IsNotExist(err) {
			return c.createKueueKeys()
		}
		if err != nil {
			return nil, fmt.Errorf("read Kueue's keys: %w", err)
		}
		keys[name] = data
	}
	return keys, nil
}

func (c *Cluster) createKueueKeys() (map[string][]byte, error) {
	caKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("create Kueue's keys: %w", err)
	}
	caTemplate := &x509.Certificate{
		Subject: pkix.Name{CommonName: kueueAuthority}, DNSNames: []string{kueueAuthority},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca, err := signCertificate(caTemplate, nil, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	parent, err := x509.ParseCertificate(ca)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate of Kueue's authority: %w", err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("create Kueue's keys: %w", err)
	}
	server, err := signCertificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: kueueService},
		DNSNames:    []string{kueueService + "." + kueueNamespace + ".svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, parent, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	keys := map[string][]byte{
		"ca.crt": pemBlock("CERTIFICATE", ca), "ca.key": pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(caKey)),
		"tls.crt": pemBlock("CERTIFICATE", server), "tls.key": pemBlock("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)),
	}
	for name, data := range keys {
		if err := writeFile(c.path("kueue", name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// storeKueueKeys puts the keys where Kueue manages them.
func (c *Cluster) storeKueueKeys(ctx context.Context, keys map[string][]byte) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := client.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace(kueueNamespace), options); err != nil {
		return fmt.Errorf("create Kueue's namespace: %w", err)
	}
	secret := applycorev1.Secret(kueueSecret, kueueNamespace).WithType(corev1.SecretTypeOpaque).WithData(keys)
	if _, err := client.CoreV1().Secrets(kueueNamespace).Apply(ctx, secret, options); err != nil {
		return fmt.Errorf("store Kueue's keys: %w", err)
	}
	return nil
}

// SetKueuePodsReady restarts Kueue with another Options.KueuePodsReady. Until it is
// back nobody can create TrainJobs, JobSets or Jobs, as in a real cluster.
func (c *Cluster) SetKueuePodsReady(ctx context.Context, timeout time.Duration) error {
	if err := c.StopComponent(Kueue); err != nil {
		return err
	}
	c.opts.KueuePodsReady = timeout
	return c.StartComponent(ctx, Kueue)
}
