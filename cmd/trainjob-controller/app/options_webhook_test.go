package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// webhookFlags parses flags and returns the options, and which flags are wrong.
func webhookFlags(t *testing.T, args ...string) (*Options, []string) {
	t.Helper()
	options := parsed(t, args...)
	var wrong []string
	for _, err := range options.Validate() {
		flag, _, _ := strings.Cut(err.Error(), ":")
		wrong = append(wrong, flag)
	}
	return options, wrong
}

func TestEveryWrongWebhookFlagIsNamedAtOnce(t *testing.T) {
	args := []string{
		"--webhook-bind-address=9443", "--webhook-secret-name=A", "--webhook-service-name=a.b", "--webhook-namespace=a/b",
		"--webhook-configuration-name=", "--webhook-min-tls-version=1.1", "--webhook-extra-sans=127.0.0.1,a b,*.example.com",
		"--webhook-cert-lifetime=9s", "--webhook-shutdown-delay=-1s",
	}
	_, wrong := webhookFlags(t, args...)
	want := []string{
		"--webhook-bind-address", "--webhook-secret-name", "--webhook-service-name", "--webhook-namespace",
		"--webhook-configuration-name", "--webhook-min-tls-version", "--webhook-extra-sans", "--webhook-cert-lifetime", "--webhook-shutdown-delay",
	}
	if diff := cmp.Diff(want, wrong); diff != "" {
		t.Errorf("flags complained about (-want +got):\n%s", diff)
	}
	if _, wrong := webhookFlags(t, append(args, "--webhook=false")...); len(wrong) > 0 {
		t.Errorf("without webhooks their flags do not matter: %v", wrong)
	}
}

func TestWebhookDefaultsAreWhatTheManifestsName(t *testing.T) {
	options, _ := webhookFlags(t)
	want := WebhookOptions{
		Enabled: true, BindAddress: ":9443", SecretName: "trainjob-controller-webhook-cert", ServiceName: "trainjob-controller-webhook",
		ConfigurationName: "trainjob-controller", MinTLSVersion: "1.3", ExtraSANs: []string{},
		CertLifetime: 90 * 24 * time.Hour, ShutdownDelay: 5 * time.Second,
	}
	if options.Webhook.ExtraSANs == nil {
		want.ExtraSANs = nil
	}
	if diff := cmp.Diff(want, options.Webhook); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if got := options.Webhook.namespace(); got != "trainjob-system" {
		t.Errorf("outside a cluster the namespace is %q", got)
	}
	options.Webhook.Namespace = "other"
	if got := options.Webhook.namespace(); got != "other" {
		t.Errorf("the namespace is %q, want the one that was named", got)
	}
}
