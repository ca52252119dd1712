package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trainjob/controller/test/cluster"
)

// Kubectl runs kubectl against the cluster and returns what it printed. The test
// fails if kubectl does.
func (e *Env) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.TryKubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryKubectl is Kubectl for a command that may fail.
func (e *Env) TryKubectl(ctx context.Context, args ...string) (string, error) {
	binary, err := cluster.FindBinary(ctx, os.Stderr, SourceDir(), "kubectl")
	if err != nil {
		return "", fmt.Errorf("find kubectl: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.Cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
