//go:build !linux

package nodes

import (
	"fmt"
	"os"
	"runtime"
)

// Enter says what is missing: the namespaces that real nodes take are Linux's.
func Enter(func() error, func(World) int) int {
	fmt.Fprintf(os.Stderr, "nodes: real nodes need Linux, and this is %s; the simulated nodes of \"make test-integration\" run here\n", runtime.GOOS)
	return 1
}
