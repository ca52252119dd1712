package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scenarios in the order in which they run.
var scenarios = []string{"burst", "timers", "scale", "foreign", "steady"}

// options of one run.
type options struct {
	scenarios []string
	// burst and scale are the numbers of TrainJobs; timers and foreign the one number of
	// each scenario.
	burst, scale    []int
	timers, foreign int
	// rates of new TrainJobs per second, for how long, and how long each runs and then
	// stays.
	rates           []int
	steady          time.Duration
	runFor          time.Duration
	ttl             int32
	foreignRate     float64
	foreignFor      time.Duration
	idle            time.Duration
	quiet           time.Duration
	spread          int
	clients         int
	qps             float64
	apiBurst        int
	flags           string
	controller      string
	before          string
	peer            string
	out             string
	profiles        string
	oneControlPlane bool
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	which := fs.String("scenarios", strings.Join(scenarios, ","), "what to measure")
	n := fs.Int("n", 0, "number of TrainJobs in every scenario that has one, in place of its own numbers")
	burst := fs.String("burst", "100,1000,5000", "burst: numbers of TrainJobs created at once")
	scale := fs.String("scale", "1000,10000,50000", "scale: numbers of TrainJobs that exist, growing")
	fs.IntVar(&o.timers, "timers", 1000, "timers: number of deadlines, and of TTLs, in one second")
	fs.IntVar(&o.spread, "spread", 20, "timers: number of seconds over which as many deadlines are spread; 0 leaves this out")
	fs.IntVar(&o.foreign, "foreign", 1000, "foreign: number of TrainJobs that exist")
	fs.Float64Var(&o.foreignRate, "foreign-rate", 100, "foreign: changes of unrelated objects a second")
	fs.DurationVar(&o.foreignFor, "foreign-for", 30*time.Second, "foreign: how long")
	rates := fs.String("rate", "20,50", "steady: numbers of TrainJobs created a second, growing, measured one after the other; a flow ends early when 20 s of it wait")
	fs.DurationVar(&o.steady, "steady", 5*time.Minute, "steady: how long")
	fs.DurationVar(&o.runFor, "run-for", 3*time.Second, "steady: how long a TrainJob runs")
	ttl := fs.Int("ttl", 10, "steady: ttlSecondsAfterFinished of the TrainJobs")
	fs.DurationVar(&o.idle, "idle", 20*time.Second, "scale: how long to watch the idle controller")
	fs.DurationVar(&o.quiet, "quiet", 1500*time.Millisecond, "how long nothing must be written for a controller to be done")
	fs.IntVar(&o.clients, "clients", 20, "number of clients that create TrainJobs, and of plain clients that stand for the limit")
	fs.Float64Var(&o.qps, "qps", 500, "calls a second of each plain client of the limit")
	fs.IntVar(&o.apiBurst, "api-burst", 1000, "calls of each plain client in one burst")
	fs.StringVar(&o.controller, "controller", "", "the controller's binary; built from the source by default")
	fs.StringVar(&o.flags, "flags", "", "more flags of the controller")
	fs.StringVar(&o.before, "before", os.Getenv("BEFORE"), "an earlier build of the controller, to be measured as well. The default is the environment's BEFORE")
	fs.StringVar(&o.peer, "peer", os.Getenv("PEER"), "command of a second controller, for the shell; {kubeconfig} and {address} in it are replaced. The default is the environment's PEER")
	fs.StringVar(&o.out, "out", filepath.Join(".local", "bench", "result.json"), "file for the figures, as JSON; the table goes beside it, as Markdown")
	fs.StringVar(&o.profiles, "profiles", "", "folder for profiles: of the API server, the CPU of the first half minute; of every controller that serves them the same, and heap and allocations at its end")
	fs.BoolVar(&o.oneControlPlane, "one-control-plane", false, "measure all on one control plane, emptied in between: faster and less exact")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q: there are no arguments, only flags", fs.Arg(0))
	}
	var errs [4]error
	o.burst, errs[0] = numbers("burst", *burst)
	o.scale, errs[1] = numbers("scale", *scale)
	o.rates, errs[3] = numbers("rate", *rates)
	o.ttl = int32(*ttl)
	if *n > 0 {
		o.burst, o.scale, o.timers, o.foreign = []int{*n}, []int{*n}, *n, *n
	}
	o.scenarios, errs[2] = chosen(*which)
	return o, errors.Join(append(errs[:], o.validate())...)
}

func chosen(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(scenarios, name) {
			return nil, fmt.Errorf("-scenarios: %q is none of %s", name, strings.Join(scenarios, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

func numbers(name, list string) ([]int, error) {
	var all []int
	for word := range strings.SplitSeq(list, ",") {
		var n int
		if _, err := fmt.Sscanf(word+"\n", "%d\n", &n); err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a number above 0", name, word)
		}
		all = append(all, n)
	}
	if !slices.IsSorted(all) {
		return nil, fmt.Errorf("-%s: %s does not grow", name, list)
	}
	return all, nil
}

func (o *options) validate() error {
	var errs []error
	for name, value := range map[string]float64{
		"timers": float64(o.timers), "foreign": float64(o.foreign), "foreign-rate": o.foreignRate,
		"foreign-for": float64(o.foreignFor), "steady": float64(o.steady), "run-for": float64(o.runFor),
		"ttl": float64(o.ttl), "idle": float64(o.idle), "quiet": float64(o.quiet), "clients": float64(o.clients), "qps": o.qps, "api-burst": float64(o.apiBurst),
	} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("-%s: must be more than 0", name))
		}
	}
	if o.spread < 0 {
		errs = append(errs, errors.New("-spread: must not be less than 0"))
	}
	return errors.Join(errs...)
}
