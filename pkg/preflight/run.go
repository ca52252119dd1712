package preflight

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/settings"
)

// Run is one run of preflight.
type Run struct {
	Settings *settings.Settings
	Env      checks.Env
	Version  string
	Notes    []string
}

// waiter is a check that may wait for other nodes longer than an attempt usually takes.
type waiter interface{ Patience() time.Duration }

// Disabled is the report of a run that looks at nothing.
func Disabled(version string) report.Report {
	return ended(version, report.Skipped, report.ReasonDisabled, "preflight is switched off", report.Rules{})
}

// Invalid is the report of a run that could not be set up.
func Invalid(version string, err error, rules report.Rules) report.Report {
	return ended(version, report.Fatal, report.ReasonInvalidConfig, err.Error(), rules)
}

// Crashed is the report of a run in which the program itself is at fault.
func Crashed(version string, what any, rules report.Rules) report.Report {
	return ended(version, report.Fatal, report.ReasonInternalError, fmt.Sprint(what), rules)
}

func ended(version string, outcome report.Outcome, reason, message string, rules report.Rules) report.Report {
	rules.Attempt, rules.MaxAttempts = max(1, rules.Attempt), max(1, rules.MaxAttempts)
	r := report.Report{Version: version, StartTime: timestamp(time.Now())}
	r.Conclude(rules)
	r.Checks = []report.Check{}
	r.Outcome, r.Reason, r.Message = outcome, reason, message
	r.End(rules)
	return r
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Report makes the checks. It returns soon after its time is over, whatever hangs.
func (r Run) Report(ctx context.Context) report.Report {
	start := time.Now()
	s := r.Settings
	out := report.Report{
		Version: r.Version, StartTime: timestamp(start), Notes: r.Notes,
		Node: s.Node, Pod: s.Pod, Namespace: s.Namespace,
	}
	out.Rank, out.NNodes = r.place()
	rules := s.Rules()
	note := r.count(&rules)
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	out.Checks = r.stages(ctx)
	out.DurationMS = time.Since(start).Milliseconds()
	out.Conclude(rules)
	return out
}

func (r Run) place() (*int, int) {
	rank, err := strconv.Atoi(r.Env.Get("PET_NODE_RANK"))
	nodes, _ := strconv.Atoi(r.Env.Get("PET_NNODES"))
	if err != nil || rank < 0 {
		return nil, max(0, nodes)
	}
	return &rank, max(0, nodes)
}

// stages makes the cheap checks side by side and all in any case, so that one report tells
// everything, and the expensive ones one by one as long as nothing has failed.
func (r Run) stages(ctx context.Context) []report.Check {
	chosen := r.Settings.Chosen()
	results := make([]report.Check, len(chosen))
	failed := ""
	for stage := checks.Local; stage <= checks.Expensive; stage++ {
		var side sync.WaitGroup
		for i, check := range chosen {
			if check.Stage != stage {
				continue
			}
			switch {
			case stage == checks.Expensive:
				results[i] = r.unlessFailed(ctx, check, failed)
				failed = firstFailed(results)
			case patience(check) > 0:
				side.Go(func() { results[i] = r.unlessFailed(ctx, check, failed) })
			default:
				side.Go(func() { results[i] = r.check(ctx, check) })
			}
		}
		side.Wait()
		failed = firstFailed(results)
	}
	return results
}

func firstFailed(results []report.Check) string {
	for _, result := range results {
		if result.Status == report.StatusFail && result.Required {
			return result.Name
		}
	}
	return ""
}

// unlessFailed does not begin what is long after something has failed.
func (r Run) unlessFailed(ctx context.Context, check *settings.Check, failed string) report.Check {
	if failed == "" {
		return r.check(ctx, check)
	}
	finding := report.Finding{Status: report.StatusSkipped, Reason: report.ReasonNotReached, Message: "not begun, because " + failed + " has failed"}
	return report.Judged(check.Name, finding, check.Policy(r.Settings.OnError))
}

func patience(check *settings.Check) time.Duration {
	if w, ok := check.Made.(waiter); ok {
		return w.Patience()
	}
	return 0
}

// check makes one check, again while it fails in a way that may pass.
func (r Run) check(ctx context.Context, check *settings.Check) report.Check {
	start := time.Now()
	timeout := max(check.Timeout, patience(check))
	pause := check.Backoff
	var finding report.Finding
	attempts := 0
	for attempts < check.Attempts {
		attempts++
		finding = r.attempt(ctx, check.Made, timeout)
		if again := finding.Status == report.StatusFail && !finding.Final; !again || ctx.Err() != nil || attempts == check.Attempts {
			break
		}
		r.Env.Note("%s: %s, attempt %d of %d", check.Name, finding.Message, attempts, check.Attempts)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 2
	}
	if ctx.Err() != nil && finding.Status != report.StatusPass && finding.Outcome != report.Fatal {
		finding = report.Finding{
			Status: report.StatusFail, Outcome: report.Retryable, Scope: finding.Scope, Reason: report.ReasonTimeout,
			Message: fmt.Sprintf("the time of the whole run (%s) was over: %s", r.Settings.Timeout, finding.Message), Hint: finding.Hint,
		}
	}
	result := report.Judged(check.Name, finding, check.Policy(r.Settings.OnError))
	result.Attempts, result.DurationMS = attempts, time.Since(start).Milliseconds()
	return result
}

// grace is how long after its time a check may take to say so.
const grace = 4 * time.Second

// attempt looks once. A check that hangs or panics is a finding like others.
func (r Run) attempt(ctx context.Context, check checks.Check, timeout time.Duration) report.Finding {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found := make(chan report.Finding, 1)
	go func() {
		defer func() {
			if what := recover(); what != nil {
				r.Env.Note("panic: %v\n%s", what, debug.Stack())
				found <- report.Finding{Status: report.StatusFail, Outcome: report.Fatal, Scope: report.ScopeJob, Final: true,
					Reason: report.ReasonInternalError, Message: fmt.Sprint(what), Hint: "report this with the log"}
			}
		}()
		found <- check.Run(ctx, r.Env)
	}()
	select {
	case finding := <-found:
		return finding
	case <-ctx.Done():
	}
	select {
	case finding := <-found:
		return finding
	case <-time.After(grace):
		return report.Finding{Status: report.StatusFail, Outcome: report.Reschedule, Scope: report.ScopeNode, Reason: "CheckHung",
			Message: fmt.Sprintf("no answer in %s, not even when asked to stop", timeout), Hint: "look at devices and file systems of the node that do not answer"}
	}
}
