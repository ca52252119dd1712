package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

var apiSpec = Spec{
	Name: "api", Proves: "the Kubernetes API answers",
	Stage: Local, Default: true, Timeout: 5 * time.Second, Attempts: 5, Backoff: time.Second, Exhausted: report.Fatal, Failure: "20, then 30",
	New: func(flags *pflag.FlagSet) Check {
		c := &api{}
		flags.StringVar(&c.url, "api-url", "", "what is asked, by default /readyz of the API server that KUBERNETES_SERVICE_HOST names")
		flags.StringVar(&c.caFile, "api-ca-file", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "certificates that are trusted")
		return c
	},
}

type api struct{ url, caFile string }

const hintAPI = "look at network policies, and at kube-proxy on the node"

func (c *api) Run(ctx context.Context, env Env) report.Finding {
	url := c.url
	if url == "" {
		host, port := env.Get("KUBERNETES_SERVICE_HOST"), env.Get("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return skip("NotInCluster", "KUBERNETES_SERVICE_HOST is not set: this is no pod")
		}
		url = "https://" + net.JoinHostPort(host, port) + "/readyz"
	}
	roots, known := c.roots()
	status, err := ask(ctx, url, &tls.Config{RootCAs: roots, InsecureSkipVerify: !known}) //nolint:gosec // without a CA only reach can be seen, which is said
	finding := apiVerdict(url, status, err)
	if finding.Status == report.StatusPass && !known {
		finding = warn(report.ScopeJob, "APICertificateUnverified", fmt.Sprintf("%s answers, but there is no %s to know it by", url, c.caFile),
			"mount the service account's token, or name a file with --api-ca-file")
	}
	return finding
}

func (c *api) roots() (*x509.CertPool, bool) {
	data, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, false
	}
	pool := x509.NewCertPool()
	return pool, pool.AppendCertsFromPEM(data)
}

// ask returns the status of an answer, whatever it says.
func ask(ctx context.Context, url string, config *tls.Config) (int, error) {
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, Proxy: nil}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// apiVerdict: any answer shows that the server is reached, also that one may not ask.
func apiVerdict(url string, status int, err error) report.Finding {
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unverified):
		return fail(report.Retryable, report.ScopeCluster, "APICertificateInvalid", err.Error(), "something else answers in place of the API server: look at proxies and at the mounted CA")
	case err != nil:
		return fail(report.Retryable, report.ScopeCluster, "APIUnreachable", err.Error(), hintAPI)
	case status == http.StatusTooManyRequests || status >= 500:
		return fail(report.Retryable, report.ScopeCluster, "APINotReady", fmt.Sprintf("%s answers %d", url, status), "wait until the API server is ready")
	}
	finding := pass(fmt.Sprintf("%s answers %d", url, status))
	finding.Observed = map[string]string{"status": fmt.Sprint(status)}
	return finding
}
