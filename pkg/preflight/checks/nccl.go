package checks

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

var ncclSpec = Spec{
	Name: "nccl", Proves: "the GPUs of this node, or of all, exchange data correctly and fast enough",
	Stage: Expensive, Timeout: 300 * time.Second, Attempts: 2, Backoff: 2 * time.Second, MaxAttempts: 2, Exhausted: report.Reschedule, Failure: "20 once, then 21, then 30",
	New: func(flags *pflag.FlagSet) Check {
		c := &nccl{}
		flags.BoolVar(&c.across, "nccl-across", false, "across all nodes of the job, with torchrun; needs PET_* and four ports above the job's")
		flags.Float64Var(&c.minimum, "nccl-min-busbw", 0, "bus bandwidth in GB/s that must be reached; 0 is no limit")
		flags.IntVar(&c.megabytes, "nccl-megabytes", 256, "size of the largest exchange")
		flags.IntVar(&c.gpus, "nccl-gpus", 0, "GPUs that take part; 0 is all")
		return c
	},
}

type nccl struct {
	across          bool
	minimum         float64
	megabytes, gpus int
}

const hintNCCL = "look at NVLink and the network adapters of the node, and set NCCL_DEBUG=INFO to see which way the data takes"

func (c *nccl) Run(ctx context.Context, env Env) report.Finding {
	gpus := c.gpus
	if gpus == 0 {
		gpus = countGPUs(env.run(ctx, "nvidia-smi", "-L").Stdout)
	}
	if gpus == 0 {
		return skip(reasonNoGPU, "this container has no GPU")
	}
	if c.across {
		return c.acrossNodes(ctx, env, gpus)
	}
	return c.onThisNode(ctx, env, gpus)
}

func (c *nccl) onThisNode(ctx context.Context, env Env, gpus int) report.Finding {
	// Some builds under MPI would look for ranks in the job's variables.
	result := tool.Run(ctx, tool.Command{Path: "all_reduce_perf", Env: env.without("PET_"),
		Args: []string{"-b", "8", "-e", fmt.Sprintf("%dM", c.megabytes), "-f", "2", "-g", strconv.Itoa(gpus)}})
	switch {
	case result.Missing:
		return missing("all_reduce_perf", "use an image with nccl-tests, leave the check out, or set --nccl-across, which needs torchrun alone")
	case result.TimedOut:
		return fail(report.Retryable, report.ScopeNode, "NCCLTimeout", "the exchange did not come to an end in time", hintNCCL)
	case result.ExitCode != 0:
		return fail(report.Retryable, report.ScopeNode, "NCCLFailed", fmt.Sprintf("all_reduce_perf ended with %d: %s", result.ExitCode, result.Said()), hintNCCL)
	}
	return c.speed(result.Stdout)
}

var (
	busBandwidth = regexp.MustCompile(`Avg bus bandwidth\s*:\s*([0-9.eE+-]+)`)
	wrongValues  = regexp.MustCompile(`Out of bounds values\s*:\s*([0-9]+)`)
)

// speed reads what all_reduce_perf prints last.
func (c *nccl) speed(text string) report.Finding {
	if match := wrongValues.FindStringSubmatch(text); match != nil && match[1] != "0" {
		return fail(report.Retryable, report.ScopeNode, "NCCLWrongData", match[1]+" values are wrong", hintExclude)
	}
	match := busBandwidth.FindStringSubmatch(text)
	if match == nil {
		return notRun("NCCLOutputUnknown", "all_reduce_perf tells no bus bandwidth", "see which nccl-tests the image has")
	}
	reached, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return notRun("NCCLOutputUnknown", err.Error(), "see which nccl-tests the image has")
	}
	return c.judged(reached, report.ScopeNode)
}

func (c *nccl) judged(reached float64, scope report.Scope) report.Finding {
	finding := pass(fmt.Sprintf("bus bandwidth %.1f GB/s", reached))
	if c.minimum > 0 && reached < c.minimum {
		finding = fail(report.Retryable, scope, "NCCLSlow", fmt.Sprintf("bus bandwidth %.1f GB/s, at least %.1f is asked for", reached, c.minimum), hintNCCL)
	}
	finding.Observed = map[string]string{"busGBps": strconv.FormatFloat(reached, 'f', 1, 64)}
	if c.minimum > 0 {
		finding.Expected = map[string]string{"busGBps": strconv.FormatFloat(c.minimum, 'f', 1, 64)}
	}
	return finding
}

// acrossNodes uses torchrun: nccl-tests needs MPI between nodes.
func (c *nccl) acrossNodes(ctx context.Context, env Env, gpus int) report.Finding {
	test := allreduce{backend: "nccl", bytes: c.megabytes << 20, processes: gpus}
	if finding := gather(ctx, env, &test, ncclPorts); finding != nil {
		return *finding
	}
	result, finding := test.run(ctx, env)
	if finding != nil {
		return *finding
	}
	if !result.Correct {
		return wrongSum(true)
	}
	return c.judged(result.BusGBps, report.ScopePeer)
}
