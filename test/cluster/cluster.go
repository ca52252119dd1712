package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout is how long a component may take until it is ready. It is
// generous: on a machine that compiles at the same time, starts take long.
const startTimeout = 3 * time.Minute

// Cluster is a running control plane.
type Cluster struct {
	opts      Options
	dir       string
	temporary bool // dir is ours to remove
	binDir    string
	ca        *authority
	admin     *rest.Config
	probe     *http.Client

	mu        sync.Mutex
	complete  bool // everything was ready once
	ports     map[string]int
	processes map[Component]*process
}

// Start builds what is missing, starts the components and returns when all of
// them are ready for use. If it fails it has stopped what it started, and the
// error shows the end of the log that tells why.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	var binaries []string
	for _, name := range opts.components() {
		binaries = append(binaries, string(name))
	}
	binDir, err := Build(ctx, opts.Out, opts.SourceDir, binaries...)
	if err != nil {
		return nil, err
	}
	c, err := create(opts, binDir)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// create makes the folder and the keys of a new cluster.
func create(opts Options, binDir string) (*Cluster, error) {
	c := &Cluster{
		opts: opts, dir: opts.Dir, binDir: binDir,
		ports: map[string]int{}, processes: map[Component]*process{},
	}
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "trainjob-cluster-")
		if err != nil {
			return nil, fmt.Errorf("create the cluster's folder: %w", err)
		}
		c.dir, c.temporary = dir, true
	}
	if _, err := os.Stat(c.path(stateFile)); err == nil {
		return nil, fmt.Errorf("%s already holds a cluster: use Load, or stop it and remove the folder", c.dir)
	}
	if err := os.MkdirAll(c.path("logs"), 0o755); err != nil {
		return nil, fmt.Errorf("create the cluster's folder: %w", err)
	}
	ca, err := createPKI(c.path("pki"), opts.Address)
	if err != nil {
		return nil, err
	}
	c.ca = ca
	return c, nil
}

// start brings the components up in the order of their needs. What comes after
// the API server has no needs among itself and starts together.
func (c *Cluster) start(ctx context.Context) error {
	credentials, err := c.ca.client(adminUser, adminGroup)
	if err != nil {
		return err
	}
	c.admin = restConfig("", c.ca.pem, credentials)
	if c.probe, err = newProbe(c.ca, c.admin); err != nil {
		return err
	}
	names := c.opts.components()
	for _, name := range names[:2] {
		if err := c.startTimed(ctx, name); err != nil {
			return err
		}
	}
	c.admin.Host = c.server()
	data, err := kubeconfig(c.server(), c.ca.pem, adminUser, credentials)
	if err != nil {
		return err
	}
	if err := writeFile(c.Kubeconfig(), data, 0o600); err != nil {
		return err
	}
	if err := c.installOptionCRDs(ctx); err != nil {
		return err
	}
	if c.opts.Kwok {
		if err := c.createNodes(ctx); err != nil {
			return err
		}
	}
	if err := c.startTogether(ctx, names[2:]); err != nil {
		return err
	}
	if c.opts.JobSetController {
		if err := c.SetJobSetWebhooks(ctx, true); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = true
	return c.save()
}

func (c *Cluster) startTogether(ctx context.Context, names []Component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error)
	for _, name := range names {
		go func() { failures <- c.startTimed(ctx, name) }()
	}
	var first error
	for range names {
		if err := <-failures; err != nil && first == nil {
			// The others end with "context canceled", which says nothing.
			first = err
			cancel()
		}
	}
	return first
}

func (c *Cluster) startTimed(ctx context.Context, name Component) error {
	begin := time.Now()
	if err := c.StartComponent(ctx, name); err != nil {
		return err
	}
	fmt.Fprintf(c.opts.Out, "cluster: %s ready in %.1fs\n", name, time.Since(begin).Seconds())
	return nil
}

// StartComponent starts a component that the options ask for and that is
// stopped, and returns when it is ready. After StopComponent it gets the ports
// it had, as others know them.
func (c *Cluster) StartComponent(ctx context.Context, name Component) error {
	if !slices.Contains(c.opts.components(), name) {
		return fmt.Errorf("this cluster has no %s: ask for it in Options", name)
	}
	if c.running(name) {
		return nil
	}
	if err := c.startDefined(ctx, name, definitions[name]); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// startDefined tries until the component is ready, with new ports each time it
// loses one to another process.
func (c *Cluster) startDefined(ctx context.Context, name Component, def definition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	known := len(def.ports) > 0 && c.port(def.ports[0]) != 0
	return poll(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		if !known {
			if err := c.choosePorts(def.ports); err != nil {
				return false, err
			}
		}
		err := c.launch(ctx, name, def)
		if errors.Is(err, errPortTaken) {
			return false, nil
		}
		return err == nil, err
	})
}

// launch makes one attempt to bring a component up.
func (c *Cluster) launch(ctx context.Context, name Component, def definition) error {
	if def.user != "" {
		if err := c.WriteKubeconfig(c.kubeconfigOf(name), def.user, def.groups...); err != nil {
			return err
		}
	}
	if def.prepare != nil {
		if err := def.prepare(ctx, c); err != nil {
			return err
		}
	}
	binary := filepath.Join(c.binDir, string(name))
	p, err := startProcess(binary, def.args(c), c.environment(), c.dir, c.LogFile(name), c.opts.Persistent)
	if err != nil {
		return err
	}
	if err := c.record(name, p); err != nil {
		return errors.Join(err, p.kill())
	}
	if err := c.awaitReady(ctx, name, def, p); err != nil {
		return errors.Join(err, p.kill(), c.record(name, nil))
	}
	return nil
}

// awaitReady returns when the component is ready, or has ended, or time is up.
func (c *Cluster) awaitReady(ctx context.Context, name Component, def definition, p *process) error {
	var notYet error
	err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		notYet = def.ready(ctx, c)
		switch {
		case errors.Is(notYet, errPortTaken):
			return false, notYet
		case !p.alive():
			log := tail(c.LogFile(name), p.logStart)
			if lostPort(log) {
				return false, errPortTaken
			}
			return false, fmt.Errorf("%s ended instead of starting; the end of its log:\n%s", name, log)
		}
		return notYet == nil, nil
	})
	// Who gives up waiting knows why; who waited in vain wants to see the log.
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s does not get ready: %w (last answer: %v); the end of its log:\n%s", name, err, notYet, tail(c.LogFile(name), p.logStart))
	}
	return err
}

// StopComponent ends a component at once, as a crash would. While the JobSet
// controller is stopped its webhooks answer no more, so that nobody can create
// JobSets or pods: see SetJobSetWebhooks.
func (c *Cluster) StopComponent(name Component) error {
	c.mu.Lock()
	p := c.processes[name]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.kill(); err != nil {
		return err
	}
	return c.record(name, nil)
}

// Stop ends every process of the cluster, in the reverse order of their start:
// an API server without etcd would linger. It removes a temporary folder.
func (c *Cluster) Stop() error {
	var failures []error
	for _, name := range slices.Backward(c.opts.components()) {
		failures = append(failures, c.StopComponent(name))
	}
	if c.temporary {
		failures = append(failures, os.RemoveAll(c.dir))
	}
	return errors.Join(failures...)
}

// Kubeconfig is the path of the administrator's kubeconfig. The file holds its
// keys itself and may be copied elsewhere.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Dir is the cluster's folder.
func (c *Cluster) Dir() string { return c.dir }

// Pids tells the processes that run now.
func (c *Cluster) Pids() map[Component]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := map[Component]int{}
	for name, p := range c.processes {
		pids[name] = p.pid
	}
	return pids
}

func (c *Cluster) running(name Component) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[name]
	return p != nil && p.alive()
}

func (c *Cluster) port(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[name]
}

func (c *Cluster) choosePorts(names []string) error {
	ports, err := freePorts(len(names))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, name := range names {
		c.ports[name] = ports[i]
	}
	return nil
}

// record notes a started (or, with nil, a stopped) process, on disk too: a
// cluster can be cleaned up even if its starter is killed half-way.
func (c *Cluster) record(name Component, p *process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p == nil {
		delete(c.processes, name)
	} else {
		c.processes[name] = p
	}
	return c.save()
}

// save writes the state file; the caller holds the lock.
func (c *Cluster) save() error {
	return saveState(c.path(stateFile), state{
		Options: c.opts, BinDir: c.binDir, Ports: c.ports, Processes: recordsOf(c.processes), Complete: c.complete,
	})
}
