// Package process tests the controller as a process: how it starts, answers, takes
// over and ends.
package process

import (
	"os"
	"testing"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	options := cluster.WithoutJobSetController()
	os.Exit(harness.Main(m, options, &env))
}
