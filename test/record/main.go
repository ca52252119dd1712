package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func main() {
	out := flag.String("out", filepath.Join(".local", "scrapes.txt"), "`file` to write")
	length := flag.Duration("for", 4*time.Minute, "how long to record")
	every := flag.Duration("every", 3*time.Second, "time between two scrapes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the jobs are deleted soon, as the webhook says of each
	if err := run(ctx, *out, *length, *every); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, length, every time.Duration) (err error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	env, err := harness.Start(ctx, cluster.FullStack())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	both, err := newReplicas(env, filepath.Dir(file.Name()))
	if err != nil {
		return err
	}
	defer both.stop()
	if err := both.startAll(ctx); err != nil {
		return err
	}
	load := newLoad(env)
	if err := load.prepare(ctx); err != nil {
		return err
	}
	begin := time.Now()
	scraping, stopScraping := context.WithCancel(ctx)
	scraped := make(chan error, 1)
	go func() { scraped <- both.scrape(scraping, file, every) }()
	err = perform(ctx, load, both, begin, length)
	stopScraping()
	return errors.Join(err, <-scraped)
}

// perform plays the day: waves of jobs all along, and each trouble at its time.
func perform(ctx context.Context, load *load, both *replicas, begin time.Time, length time.Duration) error {
	troubles := []struct {
		at   float64 // of the whole time
		what string
		do   func(context.Context) error
	}{
		{0.25, "200 jobs at once", func(ctx context.Context) error { return load.burst(ctx, 200) }},
		{0.50, "the leader is killed", func(context.Context) error { return both.kill(names[0]) }},
		{0.55, "it is started again", func(ctx context.Context) error { return both.start(ctx, names[0]) }},
		{0.70, "a quota refuses JobSets", func(ctx context.Context) error { return load.forbid(ctx) }},
		{0.80, "the quota goes", func(ctx context.Context) error { return load.allow(ctx) }},
	}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			part := float64(now.Sub(begin)) / float64(length)
			if part >= 1 {
				return nil
			}
			if len(troubles) > 0 && part >= troubles[0].at {
				fmt.Printf("== %s: %s\n", now.Sub(begin).Round(time.Second), troubles[0].what)
				if err := troubles[0].do(ctx); err != nil {
					return fmt.Errorf("%s: %w", troubles[0].what, err)
				}
				troubles = troubles[1:]
			}
			if err := load.tick(ctx, now, part); err != nil {
				return err
			}
		}
	}
}
