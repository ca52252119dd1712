// Command preflight checks a node and the surroundings of a training job before it starts.
package main

import (
	"os"

	"github.com/trainjob/controller/cmd/preflight/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }
