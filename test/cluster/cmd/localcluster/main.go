// Command localcluster starts and stops a local control plane with simulated
// nodes that outlives the command, for development and the demo.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trainjob/controller/test/cluster"
)

const usage = `usage: localcluster [flags] COMMAND

  build  build the binaries, without starting anything
  up     start the control plane, or what has ended of it, and wait until it is ready
  down   stop the control plane and remove its folder
  env    print shell commands that set KUBECONFIG and PATH:  eval "$(localcluster env)"

flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "localcluster:", err)
		}
		os.Exit(1)
	}
}

type options struct {
	dir   string
	crds  []string
	audit bool
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	flags := flag.NewFlagSet("localcluster", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() { fmt.Fprint(progress, usage); flags.PrintDefaults() }
	flags.StringVar(&o.dir, "dir", filepath.Join(".local", "cluster"), "`folder` of the cluster")
	flags.Func("crds", "`folder` of CRDs to install at the start; may be repeated (default artifacts/crds, if it is there)",
		func(dir string) error { o.crds = append(o.crds, dir); return nil })
	flags.BoolVar(&o.audit, "audit", false, "record every request in logs/audit.log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return errors.New("name one command")
	}
	switch command := flags.Arg(0); command {
	case "build":
		return build(ctx, out, progress)
	case "up":
		return up(ctx, o, out, progress)
	case "down":
		return down(ctx, o, out)
	case "env":
		return env(ctx, o, out, progress)
	default:
		flags.Usage()
		return fmt.Errorf("there is no command %q", command)
	}
}

func build(ctx context.Context, out, progress io.Writer) error {
	dir, err := cluster.Build(ctx, progress, "")
	if err != nil {
		return err
	}
	tool, err := cluster.FindBinary(ctx, progress, "", "kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "binaries: %s\nkubectl:  %s\n", dir, tool)
	return nil
}

func up(ctx context.Context, o options, out, progress io.Writer) error {
	unlock, err := cluster.Lock(ctx, o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	begin := time.Now()
	c, err := cluster.Load(o.dir)
	if err == nil {
		fmt.Fprintln(out, "the local control plane already runs")
	} else {
		if c, err = resumeOrStart(ctx, o, progress); err != nil {
			return err
		}
		fmt.Fprintf(out, "the local control plane is ready after %.1fs\n", time.Since(begin).Seconds())
	}
	tool, err := cluster.FindBinary(ctx, progress, "", "kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\nkubectl: %s\n", c.Kubeconfig(), tool)
	return nil
}

// resumeOrStart brings back what has ended of a cluster, and starts one if there
// is none or if its start was cut short.
func resumeOrStart(ctx context.Context, o options, progress io.Writer) (*cluster.Cluster, error) {
	c, err := cluster.Resume(ctx, o.dir, progress)
	if !errors.Is(err, cluster.ErrNotRunning) {
		return c, err
	}
	if err := cluster.Remove(o.dir); err != nil {
		return nil, err
	}
	return start(ctx, o, progress)
}

func start(ctx context.Context, o options, progress io.Writer) (*cluster.Cluster, error) {
	opts := cluster.FullStack()
	opts.Dir, opts.Persistent, opts.Out = o.dir, true, progress
	opts.AuditLog = o.audit
	opts.CRDDirs = o.crds
	if len(opts.CRDDirs) == 0 {
		standard := filepath.Join("artifacts", "crds")
		if _, err := os.Stat(standard); err == nil {
			opts.CRDDirs = []string{standard}
		}
	}
	return cluster.Start(ctx, opts)
}

func down(ctx context.Context, o options, out io.Writer) error {
	unlock, err := cluster.Lock(ctx, o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := cluster.Remove(o.dir); err != nil {
		return err
	}
	fmt.Fprintln(out, "the local control plane is stopped")
	return nil
}

func env(ctx context.Context, o options, out, progress io.Writer) error {
	c, err := cluster.Load(o.dir)
	if err != nil {
		return fmt.Errorf("%w: start it with \"make local-up\"", err)
	}
	tool, err := cluster.FindBinary(ctx, progress, "", "kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\nexport PATH=\"$PATH:%s\"\n", quote(c.Kubeconfig()), filepath.Dir(tool))
	return nil
}

// quote makes a path safe for a POSIX shell.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
