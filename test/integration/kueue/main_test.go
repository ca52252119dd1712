// Package kueue tests jobs under the real Kueue, on nodes that are played: what Kueue
// decides reaches the pods, and what is promised of a job holds through all of Kueue's
// writes.
package kueue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	options := cluster.FullStack()
	options.Kueue = true
	os.Exit(harness.MainPrepared(m, options, &env, prepare))
}

// pools are the kinds of nodes that the flavors stand for, by the node that is one.
var pools = map[string]string{"node-0": "spot", "node-1": "reserved"}

const poolLabel = "example.com/pool"

// prepare labels the nodes, applies the shipped runtimes, and starts the controller with
// its webhooks: without them Kueue could not start jobs of torchtune and Flux.
func prepare(ctx context.Context) error {
	for node, pool := range pools {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, poolLabel, pool)
		if _, err := env.Core.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
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
