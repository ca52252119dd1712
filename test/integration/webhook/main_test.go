// Package webhook tests admission at the real API server: what users are told, what
// passes while nobody answers, and that certificates change without anybody noticing.
package webhook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var (
	env harness.Env
	// proxy is the address that the API server calls, as the Service is in a cluster.
	proxy *harness.Proxy
)

func TestMain(m *testing.M) {
	os.Exit(harness.MainPrepared(m, cluster.FullStack(), &env, prepare))
}

func prepare(ctx context.Context) error {
	var err error
	if proxy, err = harness.NewProxy(); err != nil {
		return err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	proxy.SetBackends(address)
	if err := env.RegisterWebhooks(ctx, proxy.Address()); err != nil {
		return fmt.Errorf("register the webhooks: %w", err)
	}
	env.Flags = harness.WebhookFlags(address)
	if err := env.StartController(ctx); err != nil {
		return err
	}
	return env.AwaitWebhooks(ctx)
}

// apply runs kubectl apply on YAML, and returns what a user reads and whether it worked.
func apply(t *testing.T, yaml string, flags ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return env.TryKubectl(t.Context(), append([]string{"apply", "-f", file}, flags...)...)
}

// withoutServer stops the controller, and with it the webhooks, for the time of a test.
func withoutServer(t *testing.T) {
	t.Helper()
	if err := env.StopController(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := env.StartController(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := env.AwaitWebhooks(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
