package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options say how to train.
type options struct {
	steps       int
	pace        time.Duration // of a step, at least
	patience    time.Duration // how long to look for the others
	checkpoints string        // folder, or empty
	every       int           // steps from one checkpoint to the next
	needs       string        // files that must be there, as name=content,…
	prepare     string        // file to write instead of training
	fault       fault
}

// exitCode of a process that the fault tells to crash.
const exitCode = 7

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("trainer:", err)
		var e exit
		if errors.As(err, &e) {
			os.Exit(int(e))
		}
		os.Exit(1)
	}
}

// exit is an error with a code of its own.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(args []string) error {
	var o options
	flags := flag.NewFlagSet("trainer", flag.ContinueOnError)
	flags.IntVar(&o.steps, "steps", 20, "steps to do in all")
	flags.DurationVar(&o.pace, "pace", 50*time.Millisecond, "how long a step takes at least")
	flags.DurationVar(&o.patience, "patience", 2*time.Minute, "how long to look for the other processes")
	flags.StringVar(&o.checkpoints, "checkpoints", "", "`folder` for checkpoints; a run goes on from the last one")
	flags.IntVar(&o.every, "every", 5, "`steps` from one checkpoint to the next")
	flags.StringVar(&o.needs, "needs", "", "files to find before the start, as `name=content,…`")
	flags.StringVar(&o.prepare, "prepare", "", "write STORAGE_URI to this `file` and end")
	flags.Var(&o.fault, "fault", "what to do wrong, as `crash|hang|slow|stubborn:rank:step[:once]`; once needs checkpoints")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.prepare != "" {
		return write(o.prepare, os.Getenv("STORAGE_URI"))
	}
	if err := o.check(); err != nil {
		return err
	}
	w, err := find(os.Getenv)
	if err != nil {
		return err
	}
	if w.local > 1 {
		return launch(w)
	}
	endOnSignal(o.fault.kind == "stubborn" && o.fault.rank == w.rank)
	return train(o, w)
}

// check looks for the files that initializers should have left.
func (o options) check() error {
	if o.needs == "" {
		return nil
	}
	for _, need := range strings.Split(o.needs, ",") {
		name, want, _ := strings.Cut(need, "=")
		got, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	return nil
}

// endOnSignal ends the process as most programs do, or takes no notice.
func endOnSignal(stubborn bool) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			fmt.Println("SIGTERM")
			if !stubborn {
				os.Exit(128 + int(syscall.SIGTERM))
			}
		}
	}()
}

// write puts a file in place in one step.
func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
