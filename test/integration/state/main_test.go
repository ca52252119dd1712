package state

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

var env harness.Env

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: these tests start a control plane")
		return
	}
	// The tests wait for timers most of the time; what bounds their number is not the
	// number of processors.
	if err := flag.Set("test.parallel", "64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(harness.Main(m, cluster.WithoutJobSetController(), &env))
}
