package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// certificate is what matters here of cert-manager's kind.
type certificate struct {
	IsCA       bool            `json:"isCA"`
	SecretName string          `json:"secretName"`
	DNSNames   []string        `json:"dnsNames"`
	Duration   metav1.Duration `json:"duration"`
	PrivateKey struct {
		RotationPolicy string `json:"rotationPolicy"`
	} `json:"privateKey"`
	IssuerRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"issuerRef"`
}

// issuer is what matters here of cert-manager's kind.
type issuer struct {
	SelfSigned *struct{} `json:"selfSigned"`
	CA         *struct {
		SecretName string `json:"secretName"`
	} `json:"ca"`
}

// specs are those of the objects of one kind, by name.
func specs[T any](t *testing.T, documents []document, kind string) map[string]T {
	t.Helper()
	found := map[string]T{}
	for _, d := range documents {
		if d.Kind == kind {
			var object struct {
				Spec T `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(d.text), &object); err != nil {
				t.Fatal(err)
			}
			found[d.Name] = object.Spec
		}
	}
	return found
}

// If a certificate were its own authority, the API server would trust the next one before
// the pods have it: no review would be answered meanwhile.
func TestTheAuthorityOutlivesTheCertificatesOfCertManager(t *testing.T) {
	path := folder("deploy", "overlays", "cert-manager")
	documents := render(t, path)
	certificates, issuers := specs[certificate](t, documents, "Certificate"), specs[issuer](t, documents, "Issuer")
	secretOf := func(name string) certificate {
		for _, c := range certificates {
			if c.SecretName == name {
				return c
			}
		}
		t.Fatalf("no Certificate is stored in the Secret %s, only %+v", name, certificates)
		return certificate{}
	}
	var mounted string
	for _, v := range deployment(t, path).Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			mounted = v.Secret.SecretName
		}
	}
	serving := secretOf(mounted)
	by, found := issuers[serving.IssuerRef.Name]
	if !found || serving.IssuerRef.Kind != "Issuer" || by.CA == nil || by.SelfSigned != nil {
		t.Fatalf("the issuer of what is served is %+v (there: %v), want one of kind CA", by, found)
	}
	authority := secretOf(by.CA.SecretName)
	if !authority.IsCA || authority.PrivateKey.RotationPolicy != "Never" {
		t.Errorf("authority %+v, want one that keeps its key", authority)
	}
	if serving.IsCA || serving.Duration.Duration <= 0 || authority.Duration.Duration < 10*serving.Duration.Duration || authority.Duration.Duration < 5*365*24*time.Hour {
		t.Errorf("the authority lives for %s, what it issues for %s", authority.Duration.Duration, serving.Duration.Duration)
	}
	if root := issuers[authority.IssuerRef.Name]; root.SelfSigned == nil {
		t.Errorf("the authority's issuer is %+v, want one that needs nothing else", root)
	}
	for _, d := range documents {
		if !strings.HasSuffix(d.Kind, "WebhookConfiguration") {
			continue
		}
		namespace, name, _ := strings.Cut(d.Annotations["cert-manager.io/inject-ca-from"], "/")
		if namespace != "trainjob-system" || certificates[name].SecretName != mounted {
			t.Errorf("%s trusts %s/%s, which is not the certificate that is served", d.Kind, namespace, name)
		}
	}
}

func TestWithCertManagerTheControllerNeedsFewerRights(t *testing.T) {
	may := map[string][]string{}
	for _, d := range render(t, folder("deploy", "overlays", "cert-manager")) {
		if d.Kind != "Role" && d.Kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(d.text), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if resource == "secrets" || resource == "*" || strings.HasSuffix(resource, "webhookconfigurations") ||
					d.Name == "trainjob-controller-webhook" {
					may[resource] = append(may[resource], rule.Verbs...)
				}
			}
		}
	}
	for _, verbs := range may {
		slices.Sort(verbs)
	}
	want := map[string][]string{
		"secrets":                         {"create"}, // keys for MPI and Flux
		"mutatingwebhookconfigurations":   {"get"},
		"validatingwebhookconfigurations": {"get"},
		"trainingruntimes":                {"get"},
		"clustertrainingruntimes":         {"get"},
	}
	if diff := cmp.Diff(want, may); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}
