package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What Kueue checks before it takes keys that it finds for its own.
func TestKueueTakesItsKeysForItsOwn(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	keys, err := c.kueueKeys()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(keys["ca.crt"], keys["ca.key"]); err != nil {
		t.Error(err)
	}
	block, _ := pem.Decode(keys["ca.key"])
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		t.Errorf("the authority's key is of another kind: %v", err)
	}
	pair, err := tls.X509KeyPair(keys["tls.crt"], keys["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(keys["ca.crt"])
	block, _ = pem.Decode(keys["ca.crt"])
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for name, certificate := range map[string]*x509.Certificate{kueueAuthority: authority, kueueService + "." + kueueNamespace + ".svc": pair.Leaf, "127.0.0.1": pair.Leaf} {
		if _, err := certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	again, err := c.kueueKeys()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(keys, again); diff != "" {
		t.Error("Kueue gets other keys when it is started again")
	}
}

func TestOnlyWebhooksOfWhatKueueManagesHereAreRegistered(t *testing.T) {
	rule := func(groups ...any) any { return map[string]any{"apiGroups": groups} }
	for name, tc := range map[string]struct {
		rules []any
		want  bool
	}{
		"its own objects":        {[]any{rule("kueue.x-k8s.io")}, true},
		"TrainJobs":              {[]any{rule("trainer.kubeflow.org")}, true},
		"pods":                   {[]any{rule("")}, false},
		"another integration":    {[]any{rule("ray.io")}, false},
		"one of two groups":      {[]any{rule("batch", "ray.io")}, false},
		"another rule beside it": {[]any{rule("batch"), rule("ray.io")}, false},
		"no rule at all":         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ofKueueGroups(map[string]any{"rules": tc.rules}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
