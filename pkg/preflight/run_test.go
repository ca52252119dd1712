package preflight

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
	"github.com/trainjob/controller/pkg/preflight/settings"
)

// looks is a check made of a function, in place of a real one.
type looks func(ctx context.Context) report.Finding

func (l looks) Run(ctx context.Context, _ checks.Env) report.Finding { return l(ctx) }

func says(status report.Status, outcome report.Outcome) looks {
	return func(context.Context) report.Finding {
		return report.Finding{Status: status, Outcome: outcome, Reason: "Said", Message: "as it was told"}
	}
}

// run is one with every chosen check replaced by a function.
func run(t *testing.T, made map[string]looks, args ...string) Run {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s := settings.New(flags)
	var names []string
	for name := range made {
		names = append(names, name)
	}
	if err := flags.Parse(append([]string{"--checks=" + strings.Join(names, ",")}, args...)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(flags, nil); err != nil {
		t.Fatal(err)
	}
	for name, check := range made {
		s.Each[name].Made = check
		s.Each[name].Backoff = time.Millisecond
	}
	return Run{Settings: s, Version: "v1", Env: checks.Env{Environ: []string{"PET_NODE_RANK=2", "PET_NNODES=4"}, Note: t.Logf}}
}

func TestCheapChecksAreAllMadeAndExpensiveOnesOnlyOnAGoodNode(t *testing.T) {
	r := run(t, map[string]looks{
		"gpu": says(report.StatusFail, report.Reschedule), "api": says(report.StatusFail, report.Retryable),
		"tcp": says(report.StatusPass, report.Pass), "dcgm": says(report.StatusPass, report.Pass),
	}).Report(t.Context())
	got := map[string]report.Status{}
	for _, check := range r.Checks {
		got[check.Name] = check.Status
	}
	if len(got) != 4 || got["api"] != report.StatusFail || got["tcp"] != report.StatusPass || got["dcgm"] != report.StatusSkipped {
		t.Errorf("%v", got)
	}
	if r.ExitCode != report.ExitReschedule || r.Reason != "Said" || *r.Rank != 2 || r.NNodes != 4 {
		t.Errorf("%+v", r)
	}
}

func TestOneExpensiveFailureSkipsTheNext(t *testing.T) {
	r := run(t, map[string]looks{"dcgm": says(report.StatusFail, report.Reschedule), "nccl": says(report.StatusPass, report.Pass)}).Report(t.Context())
	if r.Checks[1].Name != "nccl" || r.Checks[1].Reason != report.ReasonNotReached {
		t.Errorf("%+v", r.Checks)
	}
}

func TestAFailureIsLookedAtAgainUnlessItIsFinal(t *testing.T) {
	var times atomic.Int64
	pass3 := func(context.Context) report.Finding {
		if times.Add(1) < 3 {
			return says(report.StatusFail, report.Retryable)(t.Context())
		}
		return says(report.StatusPass, report.Pass)(t.Context())
	}
	r := run(t, map[string]looks{"api": pass3}).Report(t.Context())
	if r.ExitCode != 0 || r.Checks[0].Attempts != 3 {
		t.Errorf("%+v", r)
	}
	final := func(context.Context) report.Finding {
		return report.Finding{Status: report.StatusFail, Outcome: report.Fatal, Reason: "Said", Final: true}
	}
	if r := run(t, map[string]looks{"api": final}).Report(t.Context()); r.Checks[0].Attempts != 1 {
		t.Errorf("a final finding took %d attempts", r.Checks[0].Attempts)
	}
}

func TestACheckThatDoesNotComeBackIsLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes four seconds")
	}
	release := make(chan struct{})
	defer close(release)
	hung := func(context.Context) report.Finding { <-release; return report.Finding{} }
	r := run(t, map[string]looks{"cuda": hung}, "--cuda-timeout=10ms").Report(t.Context())
	if r.Reason != "CheckHung" || r.ExitCode != report.ExitReschedule {
		t.Errorf("%+v", r)
	}
}

func TestAPanicIsAFinding(t *testing.T) {
	r := run(t, map[string]looks{"cuda": func(context.Context) report.Finding { panic("oh no") }, "api": says(report.StatusPass, report.Pass)}).Report(t.Context())
	if r.Reason != report.ReasonInternalError || r.ExitCode != report.ExitStop || !strings.Contains(r.Message, "oh no") {
		t.Errorf("%+v", r)
	}
}

func TestWhenTheTimeOfAllIsOverItIsToBeTriedAgain(t *testing.T) {
	waits := func(ctx context.Context) report.Finding {
		<-ctx.Done()
		return says(report.StatusFail, report.Reschedule)(ctx)
	}
	r := run(t, map[string]looks{"gpu": waits, "api": says(report.StatusPass, report.Pass)}, "--timeout=50ms").Report(t.Context())
	if r.ExitCode != report.ExitRetry || r.Reason != report.ReasonTimeout {
		t.Errorf("%+v", r)
	}
	r = run(t, map[string]looks{"gpu": waits, "storage": says(report.StatusFail, report.Fatal)}, "--timeout=50ms").Report(t.Context())
	if r.ExitCode != report.ExitStop || r.Reason != "Said" {
		t.Errorf("what is fatal was not said: %+v", r)
	}
}

func TestAttemptsAreCountedOverRestartsOfTheContainer(t *testing.T) {
	folder := t.TempDir()
	var exits []int
	for range 4 {
		r := run(t, map[string]looks{"tcp": says(report.StatusFail, report.Retryable)}, "--state-dir="+folder, "--tcp-attempts=1").Report(t.Context())
		exits = append(exits, r.ExitCode)
		if r.Attempt != len(exits) {
			t.Errorf("attempt %d, want %d", r.Attempt, len(exits))
		}
	}
	// tcp gives the node up after three.
	if exits[0] != 20 || exits[1] != 20 || exits[2] != 21 || exits[3] != 21 {
		t.Errorf("exit codes %v", exits)
	}
}

func TestWithoutAFolderRestartsOfTheJobCount(t *testing.T) {
	for restarts, want := range map[string]int{"-1": 20, "0": 20, "1": 20, "2": 30} {
		r := run(t, map[string]looks{"api": says(report.StatusFail, report.Retryable)}, "--restart-attempt="+restarts, "--api-attempts=1").Report(t.Context())
		if r.ExitCode != want {
			t.Errorf("after %s restarts it exits with %d, want %d", restarts, r.ExitCode, want)
		}
	}
}

// In a pod that restarts its containers an endless retry would hold the GPUs for ever.
func TestAFolderThatCannotBeUsedEndsRetries(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, stateFile), []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(broken, "none"), broken} {
		r := run(t, map[string]looks{"api": says(report.StatusFail, report.Retryable)}, "--state-dir="+folder, "--api-attempts=1").Report(t.Context())
		if r.ExitCode != report.ExitStop || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "attempts cannot be counted") {
			t.Errorf("%s: %+v", folder, r)
		}
	}
}
