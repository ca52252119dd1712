package checks

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

var torchrunSpec = Spec{
	Name: "torchrun", Proves: "torchrun starts the processes of this node, or of all, and they compute together",
	Stage: Expensive, Timeout: 120 * time.Second, Attempts: 1, MaxAttempts: 2, Exhausted: report.Reschedule, Failure: "21; across nodes: 20, then 21",
	New: func(flags *pflag.FlagSet) Check {
		c := &torchrun{}
		flags.BoolVar(&c.across, "torchrun-across", false, "across all nodes of the job, not on each alone; needs PET_* and two ports above the job's")
		flags.StringVar(&c.backend, "torchrun-backend", "auto", "auto, gloo or nccl; auto is nccl where there are GPUs")
		flags.IntVar(&c.processes, "torchrun-processes", 0, "processes on this node; 0 is as many as the training has, at most 8 without GPUs")
		return c
	},
}

type torchrun struct {
	across    bool
	backend   string
	processes int
}

// Ports above the job's own that the checks across nodes use: one for their barrier, one
// for torchrun.
const (
	torchrunPorts = 1
	ncclPorts     = 3
)

const mostCPUProcesses = 8

func (c *torchrun) Run(ctx context.Context, env Env) report.Finding {
	test := allreduce{backend: c.backend, bytes: 1 << 20, processes: c.processes}
	if test.processes == 0 {
		gpus := len(env.glob("/dev/nvidia[0-9]*"))
		test.processes = processesHere(env, gpus)
		if gpus == 0 {
			test.processes = min(test.processes, mostCPUProcesses)
		}
	}
	if c.across {
		if finding := gather(ctx, env, &test, torchrunPorts); finding != nil {
			return *finding
		}
	}
	result, finding := test.run(ctx, env)
	if finding != nil {
		return *finding
	}
	if !result.Correct {
		return wrongSum(test.at != nil)
	}
	return pass(fmt.Sprintf("%d processes computed the right sum over %s", result.World, result.Backend))
}

// gather waits for the other nodes, and prepares a test for all of them.
func gather(ctx context.Context, env Env, test *allreduce, ports int) *report.Finding {
	at, known := placeOf(env)
	if !known {
		f := notRun("RankUnknown", "PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR are not set", "name the container in the runtime's envInjection")
		return &f
	}
	waiting, cancel := context.WithTimeout(ctx, half(ctx))
	defer cancel()
	if finding := meet(waiting, barrier{place: at, address: at.at(ports)}, env); finding.Status != report.StatusPass {
		return &finding
	}
	test.at, test.above = &at, ports+1
	return nil
}

// half of the time that is left.
func half(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) / 2
	}
	return time.Minute
}

func wrongSum(across bool) report.Finding {
	if across {
		return fail(report.Retryable, report.ScopePeer, "AllReduceWrong", "the processes of all nodes computed a wrong sum", "run the check on each node alone to find the one at fault")
	}
	return fail(report.Reschedule, report.ScopeNode, "AllReduceWrong", "the processes of this node computed a wrong sum", hintExclude)
}
