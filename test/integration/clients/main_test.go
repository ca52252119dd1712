// Package clients tests what users of other programs see: the Kubeflow SDK, with the
// rights of somebody who may edit one namespace.
package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trainjob/controller/test/clients/sdk"
	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	os.Exit(harness.MainPrepared(m, cluster.FullStack(), &env, prepare))
}

// prepare starts the controller with its webhooks and applies the shipped runtimes.
func prepare(ctx context.Context) error {
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	if err := env.RegisterWebhooks(ctx, address); err != nil {
		return fmt.Errorf("register the webhooks: %w", err)
	}
	env.Flags = harness.WebhookFlags(address)
	if err := env.StartController(ctx); err != nil {
		return err
	}
	if err := env.AwaitWebhooks(ctx); err != nil {
		return err
	}
	if out, err := env.TryKubectl(ctx, "apply", "-k", filepath.Join(harness.SourceDir(), "artifacts", "runtimes")); err != nil {
		return fmt.Errorf("apply the runtimes: %w\n%s", err, out)
	}
	return nil
}

// user makes a namespace and the SDK's client of somebody who may edit it, and nothing else.
func user(t *testing.T) (namespace string, client *sdk.Client) {
	t.Helper()
	namespace = env.Namespace(t)
	name := "user-of-" + namespace
	_, err := env.Core.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := env.Cluster.RESTConfigFor(name)
	if err != nil {
		t.Fatal(err)
	}
	if client, err = sdk.New(config, namespace); err != nil {
		t.Fatal(err)
	}
	// The API server goes by a RoleBinding a moment after it has taken it.
	harness.Eventually(t, harness.Soon, func() string {
		if _, err := client.ListJobs(t.Context(), ""); err != nil {
			return err.Error()
		}
		return ""
	})
	return namespace, client
}
