package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// WebhookOptions are about the admission webhooks.
type WebhookOptions struct {
	// Enabled says whether they are served at all. The controller is safe without.
	Enabled bool
	// BindAddress is host:port.
	BindAddress string
	// CertDir holds a certificate that somebody else keeps; empty means our own.
	CertDir string
	// SecretName, in Namespace, is the Secret with our own certificate.
	SecretName string
	// ServiceName, in Namespace, is how the API server reaches the webhooks.
	ServiceName string
	// Namespace; empty means that of this pod, and trainjob-system outside a cluster.
	Namespace string
	// ConfigurationName is the name of both webhook configurations.
	ConfigurationName string
	MinTLSVersion     string
	HTTP2             bool
	// ExtraSANs are more names and addresses that our own certificate is for.
	ExtraSANs []string
	// CertLifetime of our own certificate, which is replaced after two thirds.
	CertLifetime time.Duration
	// ShutdownDelay is how long to go on answering when told to stop.
	ShutdownDelay time.Duration
}

// minCertLifetime keeps looks at the certificate at most six a second.
const minCertLifetime = 10 * time.Second

// namespaceFile holds the namespace of the pod that this process runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func newWebhookOptions() WebhookOptions {
	return WebhookOptions{
		Enabled: true, BindAddress: ":9443",
		SecretName: "trainjob-controller-webhook-cert", ServiceName: "trainjob-controller-webhook",
		ConfigurationName: name, MinTLSVersion: "1.3",
		CertLifetime: 90 * 24 * time.Hour, ShutdownDelay: 5 * time.Second,
	}
}

func (o *WebhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "webhook", o.Enabled, "Serve the admission webhooks. Without them mistakes show in a TrainJob's status instead of at kubectl apply.")
	fs.StringVar(&o.BindAddress, "webhook-bind-address", o.BindAddress, "Address, host:port, on which the webhooks are served.")
	fs.StringVar(&o.CertDir, "webhook-cert-dir", o.CertDir, "Folder with tls.crt, tls.key and perhaps ca.crt, kept by somebody else such as cert-manager and read again when they change. Without it the controller makes and rotates its own certificate.")
	fs.StringVar(&o.SecretName, "webhook-secret-name", o.SecretName, "Secret with the controller's own certificate.")
	fs.StringVar(&o.ServiceName, "webhook-service-name", o.ServiceName, "Service by which the API server reaches the webhooks.")
	fs.StringVar(&o.Namespace, "webhook-namespace", o.Namespace, "Namespace of that Secret and that Service. Empty means the namespace of this pod, and trainjob-system outside a cluster.")
	fs.StringVar(&o.ConfigurationName, "webhook-configuration-name", o.ConfigurationName, "Name of both the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.")
	fs.StringVar(&o.MinTLSVersion, "webhook-min-tls-version", o.MinTLSVersion, "Oldest version of TLS that is spoken: 1.2 or 1.3.")
	fs.BoolVar(&o.HTTP2, "webhook-http2", o.HTTP2, "Speak HTTP/2 with clients that want it.")
	fs.StringSliceVar(&o.ExtraSANs, "webhook-extra-sans", o.ExtraSANs, "More DNS names and addresses for the controller's own certificate, for webhook configurations with a url in place of a service.")
	fs.DurationVar(&o.CertLifetime, "webhook-cert-lifetime", o.CertLifetime, "How long the controller's own certificate is valid, at least 10s. It is replaced after two thirds.")
	fs.DurationVar(&o.ShutdownDelay, "webhook-shutdown-delay", o.ShutdownDelay, "How long the webhooks go on answering after the process was told to stop, until the Service has forgotten it.")
}

func (o *WebhookOptions) validate() []error {
	if !o.Enabled {
		return nil
	}
	var errs []error
	wrong := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s: %v: %s", flag, value, want))
	}
	if !isAddress(o.BindAddress) {
		wrong("webhook-bind-address", o.BindAddress, "must be host:port with a port from 0 to 65535, such as 127.0.0.1:9443 or :9443; to serve no webhooks, use --webhook=false")
	}
	if len(validation.IsDNS1123Subdomain(o.SecretName)) > 0 {
		wrong("webhook-secret-name", o.SecretName, "must be the name of a Secret")
	}
	if len(validation.IsDNS1035Label(o.ServiceName)) > 0 {
		wrong("webhook-service-name", o.ServiceName, "must be the name of a Service")
	}
	if o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		wrong("webhook-namespace", o.Namespace, "must be the name of a namespace")
	}
	if len(validation.IsDNS1123Subdomain(o.ConfigurationName)) > 0 {
		wrong("webhook-configuration-name", o.ConfigurationName, "must be the name of the webhook configurations")
	}
	if _, known := tlsVersions[o.MinTLSVersion]; !known {
		wrong("webhook-min-tls-version", o.MinTLSVersion, "must be 1.2 or 1.3")
	}
	for _, name := range o.ExtraSANs {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) > 0 {
			wrong("webhook-extra-sans", name, "must be a DNS name or an address")
		}
	}
	if o.CertLifetime < minCertLifetime {
		wrong("webhook-cert-lifetime", o.CertLifetime, fmt.Sprintf("must be at least %v", minCertLifetime))
	}
	if o.ShutdownDelay < 0 {
		wrong("webhook-shutdown-delay", o.ShutdownDelay, "must not be negative")
	}
	return errs
}

// namespace of the Service and of the Secret.
func (o *WebhookOptions) namespace() string {
	if o.Namespace != "" {
		return o.Namespace
	}
	if own, err := os.ReadFile(namespaceFile); err == nil && len(own) > 0 {
		return strings.TrimSpace(string(own))
	}
	return "trainjob-system"
}
