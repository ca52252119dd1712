package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/trainjob/controller/test/cluster"
)

// Who the controller is in a cluster, as artifacts/rbac has it.
const (
	SystemNamespace = "trainjob-system"
	ServiceAccount  = "trainjob-controller"
	// ControllerUser is that account in the audit log.
	ControllerUser = "system:serviceaccount:" + SystemNamespace + ":" + ServiceAccount
)

// GrantRights applies the shipped namespace, ServiceAccount and roles, those of users too.
func GrantRights(ctx context.Context, c *cluster.Cluster) error {
	artifacts := filepath.Join(SourceDir(), "artifacts")
	rbac := filepath.Join(artifacts, "rbac")
	for _, path := range []string{
		filepath.Join(artifacts, "deploy", "base", "namespace.yaml"),
		rbac, filepath.Join(rbac, "users"), filepath.Join(rbac, "webhook"), filepath.Join(rbac, "preflight-quarantine"),
	} {
		if err := c.Apply(ctx, path); err != nil {
			return fmt.Errorf("grant the controller its rights: %w", err)
		}
	}
	return nil
}

// WriteControllerKubeconfig writes a kubeconfig with a new token of the shipped
// ServiceAccount: what a pod of the Deployment has, outside of a pod. Each token is
// known apart from the others in the audit log, as AuditEvent.Credential.
func WriteControllerKubeconfig(ctx context.Context, c *cluster.Cluster, path string) (credential string, err error) {
	admin := c.RESTConfig()
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	// Longer than any suite lasts; nobody renews it as a kubelet would.
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 60 * 60)}}
	token, err := client.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of ServiceAccount %s: %w", ServiceAccount, err)
	}
	const name = "controller"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write the controller's kubeconfig: %w", err)
	}
	return credentialID(token.Status.Token)
}

// ControllerKubeconfig is the path of the kubeconfig with which this Env starts its
// controllers: the shipped ServiceAccount, and no other rights than it has.
func (e *Env) ControllerKubeconfig() string { return filepath.Join(e.dir, "controller.kubeconfig") }

// NewIdentity is ControllerKubeconfig with a token of its own, and that token's name in
// the audit log: to tell replicas apart.
func (e *Env) NewIdentity(t *testing.T) (kubeconfig, credential string) {
	t.Helper()
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	credential, err := WriteControllerKubeconfig(t.Context(), e.Cluster, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig, credential
}

// become makes the identity that the Env's controllers have.
func (e *Env) become(ctx context.Context) error {
	if err := GrantRights(ctx, e.Cluster); err != nil {
		return err
	}
	_, err := WriteControllerKubeconfig(ctx, e.Cluster, e.ControllerKubeconfig())
	return err
}

// RightsEnv names the environment variable with the folder in which every package of
// tests leaves the rights its controllers have used. `go run ./test/rights` reads them.
const RightsEnv = "TRAINJOB_RIGHTS"

// RecordRights writes down what the API server has granted to the ServiceAccount.
func (e *Env) RecordRights(ctx context.Context) error {
	folder := os.Getenv(RightsEnv)
	if folder == "" {
		return nil
	}
	events, err := e.Cluster.AuditEvents(ctx, 0, cluster.AuditFilter{User: ControllerUser})
	if err != nil {
		return err
	}
	here, err := os.Getwd() // of a test: the folder of its package
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, filepath.Base(here)+".tsv"), FormatRights(UsedRights(events)), 0o644))
}
