package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		var r *results
		if r, err = run(ctx, o, os.Stderr); r != nil {
			r.table(os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	options *options
	results *results
	say     func(format string, args ...any)
	// controllers to be measured: ours, an earlier build and a peer if there are such.
	controllers []command
	dir         string
	// shared is the one control plane, if there is only one.
	shared *arena
}

// run measures all that is asked for. A controller that fails in a scenario does not keep
// the others from being measured; the error tells of it in the end. The results are those
// there are.
func run(ctx context.Context, o *options, out *os.File) (_ *results, err error) {
	discardLogs()
	b := &bench{options: o, results: newResults(o)}
	begin := time.Now()
	b.say = func(format string, args ...any) {
		fmt.Fprintf(out, "bench: %4.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	if b.dir, err = os.MkdirTemp("", "trainjob-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	measure := map[string]func(context.Context) error{
		"burst": b.bursts, "timers": b.timers, "scale": b.scale, "foreign": b.foreign, "steady": b.steady,
	}
	var errs []error
	for _, name := range o.scenarios {
		if err := measure[name](ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if ctx.Err() != nil {
			return b.results, context.Cause(ctx)
		}
		if err := b.results.write(o.out); err != nil { // now: a long run may not come to its end
			return b.results, errors.Join(append(errs, err)...)
		}
	}
	return b.results, errors.Join(errs...)
}

// discardLogs drops what client-go says of connections that end with their control plane.
func discardLogs() {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		_ = flags.Set(name, value) // both exist
	}
	klog.SetOutput(io.Discard)
}

// prepare builds the controller and says who is measured.
func (b *bench) prepare(ctx context.Context) error {
	var err error
	b.controllers, err = ourCommands(ctx, b.options, b.dir)
	if err == nil && b.options.peer != "" {
		b.controllers = append(b.controllers, command{name: peerName, line: b.options.peer})
	}
	return err
}

// close removes what is left: processes die with this one, files do not.
func (b *bench) close() error {
	var err error
	if b.shared != nil {
		err = b.shared.cluster.Stop()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// each measures one scenario for every controller, and before them for the limit if it
// has one, on a control plane of its own. It goes on after a failure.
func (b *bench) each(ctx context.Context, limit func(context.Context, *arena) error, controller func(context.Context, *arena, command) error) error {
	var errs []error
	on := func(name string, measure func(*arena) error) {
		if ctx.Err() != nil {
			return
		}
		a, err := b.arena(ctx)
		if err == nil {
			err = errors.Join(a.profiled(ctx, name, measure), a.close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if limit != nil {
		on(limitName, func(a *arena) error { return limit(ctx, a) })
	}
	for _, c := range b.controllers {
		on(c.name, func(a *arena) error { return controller(ctx, a, c) })
	}
	return errors.Join(errs...)
}
