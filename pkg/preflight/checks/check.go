package checks

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/tool"
)

// Check looks at one thing.
type Check interface {
	// Run returns what it saw, at the latest soon after ctx ends.
	Run(ctx context.Context, env Env) report.Finding
}

// Stage is when a check runs. Those of one stage run side by side, but for Expensive.
type Stage int

// Local checks need this node alone, Network ones what the local ones have made sure of.
// Expensive ones run one by one, and only if nothing has failed before.
const (
	Local Stage = iota
	Network
	Expensive
)

// Spec describes a check.
type Spec struct {
	Name   string
	Proves string
	Stage  Stage
	// Default checks run unless others are asked for.
	Default bool
	// Timeout of one attempt, and how many there are in a run.
	Timeout  time.Duration
	Attempts int
	// Backoff before the second attempt; it doubles.
	Backoff time.Duration
	// MaxAttempts over restarts of the container; 0 is that of the run.
	MaxAttempts int
	// Exhausted is what a retry becomes that has been tried too often.
	Exhausted report.Outcome
	// Failure says which exit codes a failure leads to.
	Failure string
	// New binds the check's own flags, each beginning with its name.
	New func(flags *pflag.FlagSet) Check
}

// All checks, in the order of reports.
func All() []Spec {
	return []Spec{gpuSpec, cudaSpec, apiSpec, storageSpec, dnsSpec, tcpSpec, dcgmSpec, ncclSpec, torchrunSpec}
}

// Env is where a check looks.
type Env struct {
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// Root is the folder that /proc, /dev and /usr are looked for in.
	Root string
	// Self is the command line of this program, for probes that may hang.
	Self []string
	// Note tells people how a long check goes on.
	Note func(format string, args ...any)
}

// Get returns a variable, or "".
func (e Env) Get(name string) string {
	value := ""
	for _, entry := range e.Environ {
		if rest, ok := strings.CutPrefix(entry, name+"="); ok {
			value = rest
		}
	}
	return value
}

// without is the environment less the variables whose names begin with one of prefixes.
func (e Env) without(prefixes ...string) []string {
	var kept []string
next:
	for _, entry := range e.Environ {
		for _, prefix := range prefixes {
			if strings.HasPrefix(entry, prefix) {
				continue next
			}
		}
		kept = append(kept, entry)
	}
	return kept
}

func (e Env) path(absolute string) string { return filepath.Join(e.Root, absolute) }

func (e Env) glob(pattern string) []string {
	found, err := filepath.Glob(e.path(pattern))
	if err != nil {
		return nil
	}
	return found
}

// number is a variable that holds one, or false: PET_NPROC_PER_NODE may say auto.
func (e Env) number(name string) (int, bool) {
	n, err := strconv.Atoi(e.Get(name))
	return n, err == nil
}

func (e Env) run(ctx context.Context, path string, args ...string) tool.Result {
	return tool.Run(ctx, tool.Command{Path: path, Args: args, Env: e.Environ})
}

func pass(message string) report.Finding {
	return report.Finding{Status: report.StatusPass, Outcome: report.Pass, Reason: report.ReasonPassed, Message: message}
}

func skip(reason, message string) report.Finding {
	return report.Finding{Status: report.StatusSkipped, Outcome: report.Pass, Reason: reason, Message: message}
}

func warn(scope report.Scope, reason, message, hint string) report.Finding {
	return report.Finding{Status: report.StatusWarn, Outcome: report.Warning, Scope: scope, Reason: reason, Message: message, Hint: hint}
}

func fail(outcome report.Outcome, scope report.Scope, reason, message, hint string) report.Finding {
	return report.Finding{Status: report.StatusFail, Outcome: outcome, Scope: scope, Reason: reason, Message: message, Hint: hint}
}

// notRun is a check that could not be made.
func notRun(reason, message, hint string) report.Finding {
	return report.Finding{Status: report.StatusError, Outcome: report.Warning, Scope: report.ScopeJob, Reason: reason, Message: message, Hint: hint, Final: true}
}

func missing(program, hint string) report.Finding {
	return notRun(report.ReasonToolMissing, program+" is not installed in this container", hint)
}
