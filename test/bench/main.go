package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func main() {
	jobs := flag.Int("jobs", 500, "number of TrainJobs created at once")
	clients := flag.Int("clients", 20, "number of clients that create them")
	idle := flag.Duration("idle", 20*time.Second, "how long to watch the idle controller")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *jobs, *clients, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, jobs, clients int, idle time.Duration) (err error) {
	options := cluster.APIServerOnly()
	options.JobSetCRD = true
	env, err := harness.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
	}()
	b := &bench{env: env, jobs: jobs, clients: clients}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	limit, err := b.limit(ctx)
	if err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	if err := env.StartController(ctx); err != nil {
		return err
	}
	burst, err := b.burst(ctx)
	if err != nil {
		return fmt.Errorf("burst: %w", err)
	}
	quiet, err := b.idle(ctx, idle)
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	report(os.Stdout, jobs, limit, burst, quiet)
	return nil
}
