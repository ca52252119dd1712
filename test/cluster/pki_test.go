package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func TestCertificatesAreGoodForTheirPurposeAlone(t *testing.T) {
	ca := newTestAuthority(t)
	stranger := newTestAuthority(t)
	server, err := ca.server("")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.client("ann", "dev")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		pair  pair
		by    *authority
		name  string
		usage x509.ExtKeyUsage
		good  bool
	}{
		"a server is trusted on loopback":            {server, ca, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		"a server is trusted as localhost":           {server, ca, "localhost", x509.ExtKeyUsageServerAuth, true},
		"a server is not trusted at another address": {server, ca, "192.0.2.1", x509.ExtKeyUsageServerAuth, false},
		"a server cannot act as a client":            {server, ca, "", x509.ExtKeyUsageClientAuth, false},
		"another cluster does not trust the server":  {server, stranger, "127.0.0.1", x509.ExtKeyUsageServerAuth, false},
		"a client is trusted":                        {client, ca, "", x509.ExtKeyUsageClientAuth, true},
		"a client cannot act as a server":            {client, ca, "", x509.ExtKeyUsageServerAuth, false},
		"another cluster does not trust the client":  {client, stranger, "", x509.ExtKeyUsageClientAuth, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AddCert(test.by.cert)
			_, err := leaf(t, test.pair).Verify(x509.VerifyOptions{Roots: roots, DNSName: test.name, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if (err == nil) != test.good {
				t.Errorf("verification: %v, want good: %t", err, test.good)
			}
		})
	}
}

func TestAuthorityIssuesTheSameAfterItIsLoaded(t *testing.T) {
	dir := t.TempDir()
	ca, err := createPKI(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	client, err := loaded.client("ann", "dev", "ops")
	if err != nil {
		t.Fatal(err)
	}
	cert := leaf(t, client)
	if err := cert.CheckSignatureFrom(ca.cert); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"ann", "dev", "ops"}, append([]string{cert.Subject.CommonName}, cert.Subject.Organization...)); diff != "" {
		t.Errorf("user and groups (-want +got):\n%s", diff)
	}
	for _, name := range []string{"ca.key", "tls.key", "sa.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, others could read it", name, mode)
		}
	}
}

func TestKubeconfigNeedsNoOtherFile(t *testing.T) {
	ca := newTestAuthority(t)
	credentials, err := ca.client("ann")
	if err != nil {
		t.Fatal(err)
	}
	data, err := kubeconfig("https://127.0.0.1:20000", ca.pem, "ann", credentials)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(restConfig("https://127.0.0.1:20000", ca.pem, credentials).TLSClientConfig, config.TLSClientConfig); diff != "" {
		t.Errorf("TLS settings (-want +got):\n%s", diff)
	}
	if config.Host != "https://127.0.0.1:20000" {
		t.Errorf("server %s", config.Host)
	}
}

func newTestAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func leaf(t *testing.T, p pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}
