package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Files taken over from the JobSet module, relative to the cache folder.
const (
	jobSetCRDFile     = "manifests/jobset-crd.yaml"
	jobSetWebhookFile = "manifests/jobset-webhooks.yaml"
)

var jobSetResource = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

// installOptionCRDs installs what has to exist before kube-controller-manager.
func (c *Cluster) installOptionCRDs(ctx context.Context) error {
	paths := c.opts.CRDDirs
	if c.opts.JobSetCRD {
		paths = append([]string{filepath.Join(c.binDir, jobSetCRDFile)}, paths...)
	}
	if c.opts.Kueue {
		if err := c.installKueueCRDs(ctx); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := c.InstallCRDs(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func writeJobSetConfig(_ context.Context, c *Cluster) error {
	config := fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection:
  leaderElect: false
internalCertManagement:
  enable: false
webhook:
  host: 127.0.0.1
  port: %d
  certDir: %q
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: 127.0.0.1:%d
clientConnection:
  qps: 500
  burst: 500
`, c.port(jobSetWebhook), c.path("pki"), c.port(jobSetHealth))
	return writeFile(c.path("jobset.yaml"), []byte(config), 0o644)
}

func jobSetArgs(c *Cluster) []string {
	return []string{
		"--config=" + c.path("jobset.yaml"),
		"--kubeconfig=" + c.kubeconfigOf(JobSet),
		"--zap-log-level=info",
	}
}

// jobSetReady asks for the controller's own opinion and for its webhook server,
// which comes up later; any answer over our certificate will do there.
func jobSetReady(ctx context.Context, c *Cluster) error {
	if err := c.get(ctx, c.url("http", jobSetHealth)+"/readyz"); err != nil {
		return err
	}
	err := c.get(ctx, c.url("https", jobSetWebhook)+"/")
	if err != nil && strings.Contains(err.Error(), "404 Not Found") {
		return nil
	}
	return err
}

// SetJobSetWebhooks registers or removes JobSet's webhooks and returns when the
// API server goes by it. With them, a stopped JobSet controller means that no
// JobSet and no pod can be created, as in a real cluster; a test that wants to
// create them nevertheless removes the webhooks before it stops the controller.
func (c *Cluster) SetJobSetWebhooks(ctx context.Context, registered bool) error {
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	configurations, err := c.jobSetWebhooks()
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		resource := client.Resource(webhookResource(configuration))
		if registered {
			err = apply(ctx, resource, configuration)
		} else if err = resource.Delete(ctx, configuration.GetName(), metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("set JobSet's webhooks: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no effect after a minute"))
	defer cancel()
	var last error
	err = poll(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		var called bool
		called, last = jobSetWebhooksCalled(ctx, client)
		return last == nil && called == registered, nil
	})
	if err != nil {
		return fmt.Errorf("set JobSet's webhooks: %w (last answer: %v)", err, last)
	}
	return nil
}

// jobSetWebhooks reads the manifest of the JobSet module and points it to the
// controller's port instead of to a service.
func (c *Cluster) jobSetWebhooks() ([]*unstructured.Unstructured, error) {
	return c.webhooksByURL(jobSetWebhookFile, "jobset-", jobSetWebhook, c.ca.pem, func(map[string]any) bool { return true })
}

// webhooksByURL reads a component's webhook configurations, puts a prefix before
// their names, leaves out the webhooks that are not wanted, and has the others
// called at the component's port, with certificates of an authority.
func (c *Cluster) webhooksByURL(file, prefix, port string, ca []byte, wanted func(hook map[string]any) bool) ([]*unstructured.Unstructured, error) {
	configurations, err := readManifests(filepath.Join(c.binDir, file))
	if err != nil {
		return nil, err
	}
	bundle := base64.StdEncoding.EncodeToString(ca)
	for _, configuration := range configurations {
		configuration.SetName(prefix + configuration.GetName())
		hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			return nil, fmt.Errorf("read the webhooks in %s: %w", file, err)
		}
		var kept []any
		for _, entry := range hooks {
			hook, _ := entry.(map[string]any)
			path, found, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
			if err != nil || !found {
				return nil, fmt.Errorf("a webhook in %s has no path: the manifest changed", file)
			}
			if wanted(hook) {
				hook["clientConfig"] = map[string]any{"url": c.url("https", port) + path, "caBundle": bundle}
				kept = append(kept, hook)
			}
		}
		if err := unstructured.SetNestedSlice(configuration.Object, kept, "webhooks"); err != nil {
			return nil, fmt.Errorf("rewrite the webhooks in %s: %w", file, err)
		}
	}
	return configurations, nil
}

// webhookResource is the resource of a webhook configuration.
func webhookResource(configuration *unstructured.Unstructured) schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: strings.ToLower(configuration.GetKind()) + "s",
	}
}

// jobSetWebhooksCalled finds out by a rehearsed creation. It is one that the
// validating webhook refuses and that the API server alone would take, so the
// answer also tells whether the mutating webhook, which comes first, worked.
func jobSetWebhooksCalled(ctx context.Context, client dynamic.Interface) (bool, error) {
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": jobSetResource.GroupVersion().String(),
		"kind":       "JobSet",
		"metadata":   map[string]any{"name": "webhook-probe"},
		"spec": map[string]any{
			"successPolicy": map[string]any{"operator": "All", "targetReplicatedJobs": []any{"no-such-job"}},
			"replicatedJobs": []any{map[string]any{
				"name": "job",
				"template": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
					"containers": []any{map[string]any{"name": "c", "image": "none"}},
				}}}},
			}},
		},
	}}
	_, err := client.Resource(jobSetResource).Namespace(metav1.NamespaceDefault).
		Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return false, nil
	case strings.Contains(err.Error(), "vjobset.kb.io") && strings.Contains(err.Error(), "no-such-job"):
		return true, nil
	default:
		return false, err
	}
}
