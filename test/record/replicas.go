package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/harness"
)

// names of the replicas; the first is started first and leads.
var names = []string{"replica-0", "replica-1"}

// replicas of the controller that compete for the lease, and share the webhooks' calls.
type replicas struct {
	env *harness.Env
	dir string // of their logs
	// args are those of the Deployment.
	args []string
	// proxy is the address that the API server calls, as the Service is in a cluster.
	proxy *harness.Proxy
	// webhooks are the addresses of the replicas behind it.
	webhooks map[string]string

	mu      sync.Mutex
	running map[string]*harness.Controller
}

func newReplicas(env *harness.Env, dir string) (*replicas, error) {
	r := &replicas{env: env, dir: dir, webhooks: map[string]string{}, running: map[string]*harness.Controller{}}
	var err error
	if r.args, err = deploymentArgs(filepath.Join(harness.SourceDir(), "artifacts", "deploy", "base", "deployment.yaml")); err != nil {
		return nil, err
	}
	for _, name := range names {
		if r.webhooks[name], err = harness.FreeAddress(); err != nil {
			return nil, err
		}
	}
	r.proxy, err = harness.NewProxy()
	return r, err
}

// deploymentArgs are the arguments of the container in a Deployment's file.
func deploymentArgs(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(data, &deployment); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 {
		return nil, fmt.Errorf("%s has %d containers, want 1", file, len(containers))
	}
	var args []string
	for _, arg := range containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", harness.SystemNamespace))
	}
	return args, nil
}

// startAll registers the webhooks and starts every replica. It returns when the API
// server asks them.
func (r *replicas) startAll(ctx context.Context) error {
	if err := r.env.RegisterWebhooks(ctx, r.proxy.Address()); err != nil {
		return err
	}
	for _, name := range names {
		if err := r.start(ctx, name); err != nil {
			return err
		}
	}
	r.proxy.SetBackends(slices.Collect(maps.Values(r.webhooks))...)
	return r.env.AwaitWebhooks(ctx)
}

func (r *replicas) start(ctx context.Context, name string) error {
	flags := append(slices.Clone(r.args), harness.WebhookFlags(r.webhooks[name])...)
	c, err := harness.StartController(ctx, r.env.Binary, r.env.ControllerKubeconfig(), filepath.Join(r.dir, name+".log"),
		append([]string{"--leader-elect=true"}, flags...)...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
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
	if err := r.proxy.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
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
