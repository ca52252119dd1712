package checks

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

//go:embed allreduce.py
var allreduceScript []byte

// allreduce sums a vector over processes that torchrun starts.
type allreduce struct {
	backend   string
	bytes     int
	processes int
	// at is this node's place among others; nil stays on this node.
	at *place
	// above the job's port are the ports that are used.
	above int
}

// allreduceResult is the best of what the processes of this node said.
type allreduceResult struct {
	World   int     `json:"world"`
	Backend string  `json:"backend"`
	Correct bool    `json:"correct"`
	BusGBps float64 `json:"busGBps"`
}

// run returns what came out, or a finding that says why nothing did.
func (a allreduce) run(ctx context.Context, env Env) (allreduceResult, *report.Finding) {
	launcher, finding := torchrunProgram(ctx, env)
	if finding != nil {
		return allreduceResult{}, finding
	}
	folder, err := os.MkdirTemp("", "preflight-")
	if err != nil {
		f := notRun("TorchrunNotRun", err.Error(), "give the container a folder for temporary files, or set TMPDIR")
		return allreduceResult{}, &f
	}
	defer os.RemoveAll(folder)
	script := filepath.Join(folder, "allreduce.py")
	if err := os.WriteFile(script, allreduceScript, 0o600); err != nil {
		f := notRun("TorchrunNotRun", err.Error(), "give the container a folder for temporary files, or set TMPDIR")
		return allreduceResult{}, &f
	}
	placement, err := a.placement()
	if err != nil {
		f := notRun("TorchrunNotRun", err.Error(), "")
		return allreduceResult{}, &f
	}
	args := append(append(launcher[1:], placement...), "--nproc-per-node", strconv.Itoa(a.processes), script,
		"--backend", a.backend, "--bytes", strconv.Itoa(a.bytes), "--timeout", strconv.Itoa(secondsLeft(ctx)))
	// torchrun takes PET_* for flags that are not given: those of the job must not reach it.
	ran := tool.Run(ctx, tool.Command{Path: launcher[0], Args: args, Env: env.without("PET_")})
	result, seen := parseAllreduce(ran.Stdout)
	if seen && !result.Correct {
		return result, nil
	}
	if finding := a.failure(ran, seen); finding != nil {
		return result, finding
	}
	return result, nil
}

// placement is what torchrun is told about nodes: one, with a port of its own, or those of
// the job, with a port beside the job's.
func (a allreduce) placement() ([]string, error) {
	address, port, nodes, rank := "127.0.0.1", 0, 1, 0
	if a.at != nil {
		address, port, nodes, rank = a.at.address, a.at.port+a.above, a.at.nodes, a.at.rank
	} else {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		port = listener.Addr().(*net.TCPAddr).Port
		if err := listener.Close(); err != nil {
			return nil, err
		}
	}
	return []string{"--nnodes", strconv.Itoa(nodes), "--node-rank", strconv.Itoa(rank),
		"--master-addr", address, "--master-port", strconv.Itoa(port), "--max-restarts", "0"}, nil
}

func (a allreduce) failure(ran tool.Result, seen bool) *report.Finding {
	outcome, scope := report.Reschedule, report.ScopeNode
	hint := "run the training image on this node by hand and read what torchrun says"
	if a.at != nil {
		// Of several nodes it cannot be said which one is at fault.
		outcome, scope, hint = report.Retryable, report.ScopePeer, "look at the network between the nodes of this job"
	}
	switch {
	case ran.TimedOut:
		f := fail(outcome, scope, "AllReduceTimeout", "the processes did not come to an end in time", hint)
		return &f
	case ran.Err != nil:
		f := notRun("TorchrunNotRun", ran.Err.Error(), "")
		return &f
	case ran.ExitCode != 0 || !seen:
		f := fail(outcome, scope, "AllReduceFailed", fmt.Sprintf("torchrun ended with %d: %s", ran.ExitCode, pythonError(ran)), hint)
		return &f
	}
	return nil
}

// torchrunProgram finds torchrun, or Python with torch.
func torchrunProgram(ctx context.Context, env Env) ([]string, *report.Finding) {
	if result := tool.Run(ctx, tool.Command{Path: "torchrun", Args: []string{"--help"}, Env: env.without("PET_")}); !result.Missing {
		return []string{"torchrun"}, nil
	}
	python := tool.Run(ctx, tool.Command{Path: "python3", Args: []string{"-c", "import torch"}, Env: env.without("PET_")})
	if python.Missing || python.ExitCode != 0 {
		f := missing("torchrun", "use the training image for this container, or leave the check out")
		return nil, &f
	}
	return []string{"python3", "-m", "torch.distributed.run"}, nil
}

func parseAllreduce(text string) (allreduceResult, bool) {
	var best allreduceResult
	seen, correct := false, true
	for line := range strings.Lines(text) {
		start := strings.Index(line, `{"preflight": "allreduce"`)
		if start < 0 {
			continue
		}
		var r allreduceResult
		if json.NewDecoder(strings.NewReader(line[start:])).Decode(&r) != nil {
			continue
		}
		correct = correct && r.Correct
		if !seen || r.BusGBps > best.BusGBps {
			best = r
		}
		seen = true
	}
	best.Correct = correct
	return best, seen
}

// pythonError is the exception, which stands above what torchrun itself adds.
func pythonError(ran tool.Result) string {
	for line := range strings.Lines(ran.Stderr) {
		name, _, found := strings.Cut(line, ": ")
		if found && (strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception")) && !strings.Contains(name, " ") {
			return strings.TrimSpace(line)
		}
	}
	return ran.Said()
}

func secondsLeft(ctx context.Context) int {
	if end, ok := ctx.Deadline(); ok {
		return max(1, int(time.Until(end).Seconds()))
	}
	return 60
}

// processesHere is how many processes the training has on this node.
func processesHere(env Env, gpus int) int {
	if n, ok := env.number("PET_NPROC_PER_NODE"); ok {
		return n
	}
	return max(1, gpus)
}
