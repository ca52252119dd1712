package webhook

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"

	"github.com/trainjob/controller/test/builders"
	"github.com/trainjob/controller/test/harness"
)

// looks is how long a controller may take until it looks at its configurations again.
const looks = time.Minute

// selfMade is a certificate for the loopback address, with its authority.
func selfMade(t *testing.T) (cert, key, authority []byte) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, authority, found := bytes.Cut(cert, []byte("-----END CERTIFICATE-----\n"))
	if !found || len(authority) == 0 {
		t.Fatalf("no authority in:\n%s", cert)
	}
	return cert, key, authority
}

// trust makes all webhooks trust a bundle.
func trust(t *testing.T, authorities []byte) {
	t.Helper()
	hook := func(name string) map[string]any {
		return map[string]any{"name": name + ".trainer.kubeflow.org", "clientConfig": map[string]any{"caBundle": authorities}}
	}
	patch := func(hooks ...any) []byte {
		data, err := json.Marshal(map[string]any{"webhooks": hooks})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	api := env.Core.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Patch(t.Context(), harness.WebhookName, types.StrategicMergePatchType,
		patch(hook("mutate-trainjob")), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ValidatingWebhookConfigurations().Patch(t.Context(), harness.WebhookName, types.StrategicMergePatchType,
		patch(hook("validate-trainjob"), hook("validate-runtime")), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitReady(t *testing.T, c *harness.Controller, ready bool, why string) {
	t.Helper()
	harness.Eventually(t, looks, func() string {
		body, err := c.Get(t.Context(), "/readyz")
		switch {
		case ready && err != nil:
			return err.Error()
		case !ready && err == nil:
			return "it is ready: " + body
		case !ready && !strings.Contains(err.Error(), why):
			return "not ready, but for another reason: " + err.Error()
		}
		return ""
	})
}

func TestWhatIsNotTrustedIsPutRight(t *testing.T) {
	_, _, stranger := selfMade(t)
	trust(t, stranger)
	awaitReady(t, env.Controller, true, "")
	if now, err := bundle(t.Context()); err == nil && bytes.Equal(now, stranger) {
		// Asked before the controller had looked: once more, when it has.
		harness.Eventually(t, looks, func() string {
			if now, err := bundle(t.Context()); err != nil || bytes.Equal(now, stranger) {
				return "the configuration still has a strange authority"
			}
			return ""
		})
	}
	if err := env.AwaitWebhooks(t.Context()); err != nil {
		t.Error(err)
	}
	awaitReady(t, env.Controller, true, "")
}

func TestWithoutConfigurationsTheControllerIsNotReady(t *testing.T) {
	api := env.Core.AdmissionregistrationV1()
	if err := api.ValidatingWebhookConfigurations().Delete(t.Context(), harness.WebhookName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := api.MutatingWebhookConfigurations().Delete(t.Context(), harness.WebhookName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, env.Controller, false, `there is no MutatingWebhookConfiguration and no ValidatingWebhookConfiguration "trainjob-controller"`)
	if err := env.RegisterWebhooks(t.Context(), proxy.Address()); err != nil {
		t.Fatal(err)
	}
	if err := env.AwaitWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, env.Controller, true, "")
}

func TestADeletedSecretIsMadeAgain(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	const secret = "trainjob-controller-webhook-cert"
	secrets := env.Core.CoreV1().Secrets(harness.SystemNamespace)
	before, err := secrets.Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	job := 0
	harness.Eventually(t, looks, func() string {
		job++
		env.NewJob(t, namespace, "job-"+string(rune('a'+job%26))+string(rune('a'+job/26)), builders.Suspended(true)) // fails the test if refused
		after, err := secrets.Get(t.Context(), secret, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if bytes.Equal(after.Data[corev1.TLSCertKey], before.Data[corev1.TLSCertKey]) {
			return "the certificate is the same"
		}
		known, err := bundle(t.Context())
		if err != nil || !bytes.Equal(known, after.Data["ca.crt"]) {
			return "the new authority is not in the configuration"
		}
		return ""
	})
}

// writeMount writes files as the kubelet does: into a new folder, and then a link is
// moved to it.
func writeMount(t *testing.T, dir, version string, files map[string][]byte) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, version, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); err != nil {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(version, filepath.Join(dir, "..new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatesFromFilesAreReadAgain(t *testing.T) {
	namespace := env.Namespace(t)
	env.NewRuntime(t, namespace, builders.TorchSpec())
	withoutServer(t)
	own := proxy.Backends()
	t.Cleanup(func() { behindProxy(t, own...) })
	cert, key, authority := selfMade(t)
	nextCert, nextKey, nextAuthority := selfMade(t)
	both := append(bytes.Clone(authority), nextAuthority...)
	trust(t, both)
	dir := t.TempDir()
	writeMount(t, dir, "..one", map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority})
	c, address := replica(t, "files", "--webhook-cert-dir="+dir)
	behindProxy(t, address)
	if err := env.AwaitWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := handshake(t.Context(), address, authority)
	if err != nil {
		t.Fatal(err)
	}
	writeMount(t, dir, "..two", map[string][]byte{"tls.crt": nextCert, "tls.key": nextKey, "ca.crt": nextAuthority})
	harness.Eventually(t, looks, func() string {
		if serial, err := handshake(t.Context(), address, both); err != nil || serial == first {
			return "the first certificate is still served"
		}
		return ""
	})
	env.NewJob(t, namespace, "a", builders.Suspended(true))
	if now, err := bundle(t.Context()); err != nil || !bytes.Equal(now, both) {
		t.Errorf("the controller has changed whom the API server trusts (%v)", err)
	}
	// What the API server does not trust is not ready, and no secret of nobody.
	trust(t, authority)
	awaitReady(t, c, false, "certificate signed by unknown authority")
	trust(t, both)
	awaitReady(t, c, true, "")
}
