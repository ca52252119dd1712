package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// stateFile is where a cluster's folder says what belongs to it.
const stateFile = "cluster.json"

// ErrNotRunning is returned by Load for a folder without a complete cluster.
var ErrNotRunning = errors.New("no running cluster")

type state struct {
	Options   Options              `json:"options"`
	BinDir    string               `json:"binDir"`
	Ports     map[string]int       `json:"ports"`
	Processes map[Component]record `json:"processes"`
	// Complete says that the cluster was ready once. One whose start was cut
	// short lacks more than its processes.
	Complete bool `json:"complete"`
}

type record struct {
	PID    int    `json:"pid"`
	Binary string `json:"binary"`
}

func recordsOf(processes map[Component]*process) map[Component]record {
	records := map[Component]record{}
	for name, p := range processes {
		records[name] = record{PID: p.pid, Binary: p.binary}
	}
	return records
}

func saveState(path string, s state) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's state: %w", err)
	}
	return writeFile(path, append(data, '\n'), 0o600)
}

// Load returns the persistent cluster in dir. It fails with ErrNotRunning if
// there is none or if not all of its components run.
func Load(dir string) (*Cluster, error) {
	c, err := openComplete(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range c.opts.components() {
		if !c.running(name) {
			return nil, fmt.Errorf("%w in %s: %s has ended", ErrNotRunning, c.dir, name)
		}
	}
	return c, nil
}

// Resume is Load, but starts the components that have ended, all of them after
// a reboot, with what the cluster had stored. It fails with ErrNotRunning if
// there never was a complete cluster.
func Resume(ctx context.Context, dir string, out io.Writer) (*Cluster, error) {
	c, err := openComplete(dir)
	if err != nil {
		return nil, err
	}
	if out != nil {
		c.opts.Out = &lineWriter{out: out}
	}
	for _, name := range c.opts.components() {
		if c.running(name) {
			continue
		}
		if err := c.startTimed(ctx, name); err != nil {
			return nil, fmt.Errorf("resume the cluster in %s (a new one can be started after its removal): %w", c.dir, err)
		}
	}
	return c, nil
}

// openComplete reads a cluster and its credentials.
func openComplete(dir string) (*Cluster, error) {
	c, err := open(dir)
	if err != nil {
		return nil, err
	}
	if !c.complete {
		return nil, fmt.Errorf("%w in %s: its start was cut short", ErrNotRunning, c.dir)
	}
	if c.admin, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	c.admin.QPS = -1
	if c.ca, err = loadAuthority(c.path("pki")); err != nil {
		return nil, err
	}
	if c.probe, err = newProbe(c.ca, c.admin); err != nil {
		return nil, err
	}
	return c, nil
}

// Remove stops whatever runs of the cluster in dir, complete or not, and
// removes the folder. A folder that does not exist is no error.
func Remove(dir string) error {
	c, err := open(dir)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Stop(); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

// Lock keeps other processes from starting or stopping the persistent cluster
// in dir until it is undone or this process ends. The lock lies beside the
// folder, which comes and goes.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	path := filepath.Clean(dir) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the cluster: %w", err)
	}
	return lockFile(ctx, path, nil)
}

// open reads a cluster's state without asking whether it runs.
func open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve cluster folder: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w in %s", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read the cluster's state in %s: %w", dir, err)
	}
	// Not completed anew: what the options name may be gone by now.
	s.Options.Dir, s.Options.Out = dir, io.Discard
	c := &Cluster{
		opts: s.Options, dir: dir, binDir: s.BinDir, complete: s.Complete,
		ports: s.Ports, processes: map[Component]*process{},
	}
	for name, r := range s.Processes {
		c.processes[name] = &process{pid: r.PID, binary: r.Binary, folder: dir}
	}
	return c, nil
}
