// Package failover takes the leader away, again and again and in every way, and checks
// that its work goes on: nothing late, nothing twice. The replicas have the identity and
// the lease times of artifacts/deploy.
package failover

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	started, err := harness.Start(context.Background(), cluster.WithoutJobSetController())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	env = *started
	code := m.Run()
	if err := env.RecordRights(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
