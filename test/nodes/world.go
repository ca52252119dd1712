package nodes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// World is what a program finds inside.
type World struct {
	// Dir is a folder that is removed with the world.
	Dir string
}

// gateway is the address of the control plane on the bridge of the nodes, which is also
// that of the cluster's DNS; bridge is the bridge's name.
const (
	gateway      = "10.250.0.1"
	bridge       = "nodes"
	podNetwork   = "10.244.0.0/16"
	proxyMetrics = "127.0.0.1:10249"
)

// packages are the Debian packages that have the programs of a node, by a program of
// each.
var packages = map[string]string{
	"containerd": "containerd",
	"runc":       "runc",
	"nft":        "nftables",
	"iptables":   "iptables",
	"conntrack":  "conntrack",
	"ip":         "iproute2",
}

// cniFolder is where Debian puts the plugins of containernetworking-plugins.
const cniFolder = "/usr/lib/cni"

// missing says what this machine lacks, and what to do about it.
func missing() error {
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root: run this as root, for example with sudo")
	}
	var lacks []string
	for program, pkg := range packages {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, pkg)
		}
	}
	if _, err := os.Stat(filepath.Join(cniFolder, "bridge")); err != nil {
		lacks = append(lacks, "containernetworking-plugins")
	}
	if len(lacks) > 0 {
		return fmt.Errorf("packages are missing: %s. On Debian \"hack/cluster/packages.sh\" installs them", strings.Join(lacks, ", "))
	}
	if _, err := os.Stat(filepath.Join(cgroups, "cpuset")); err != nil {
		return fmt.Errorf("real nodes need the first version of control groups, mounted at %s, as on this project's machines: %w", cgroups, err)
	}
	return nil
}

// cgroups is where control groups are mounted, a folder for each controller.
const cgroups = "/sys/fs/cgroup"

// run runs a command and returns its output in the error if it fails.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// runAll runs commands, written as words, until one fails.
func runAll(commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if err := run(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// logTo opens a log file for more output.
func logTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// discardIfNil makes a writer that may be nil one that may not.
func discardIfNil(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
