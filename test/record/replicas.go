package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trainjob/controller/test/harness"
)

// names of the replicas; the first is started first and leads.
var names = []string{"replica-0", "replica-1"}

// replicas of the controller that compete for the lease.
type replicas struct {
	env *harness.Env
	dir string // of their logs

	mu      sync.Mutex
	running map[string]*harness.Controller
}

func (r *replicas) start(ctx context.Context, name string) error {
	c, err := harness.StartController(ctx, r.env.Binary, r.env.Cluster.Kubeconfig(), filepath.Join(r.dir, name+".log"),
		"--leader-elect=true", "--leader-elect-resource-namespace="+systemNamespace, "--logging-format=json")
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = map[string]*harness.Controller{}
	}
	r.running[name] = c
	return nil
}

func (r *replicas) kill(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.running[name]
	delete(r.running, name)
	return c.Kill()
}

func (r *replicas) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.running {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
		}
	}
}

// scrape writes what every replica says, time after time: a line "## scrape MILLISECONDS
// REPLICA", and then its metrics, or nothing if it does not answer.
func (r *replicas) scrape(ctx context.Context, out io.Writer, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		for _, name := range names {
			r.mu.Lock()
			c := r.running[name]
			r.mu.Unlock()
			var body string
			at := time.Now()
			if c != nil {
				body, _ = c.Get(ctx, "/metrics") // no answer is what a scrape finds too
			}
			if _, err := fmt.Fprintf(out, "## scrape %d %s\n%s", at.UnixMilli(), name, body); err != nil {
				return fmt.Errorf("write the scrape: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
