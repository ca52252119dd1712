package report

import (
	"strings"
	"testing"
)

// defaults are the rules of a run without settings.
func defaults() Rules {
	return Rules{FailOn: Retryable, Attempt: 1, MaxAttempts: 3, Restarts: -1, MaxReschedules: 1, NodeFailureExitCode: ExitReschedule}
}

func found(status Status, outcome Outcome) Finding {
	return Finding{Status: status, Outcome: outcome, Reason: "Because", Message: "so it is"}
}

func TestOutcomesAndExitCodes(t *testing.T) {
	failed := func(outcome Outcome) []Check {
		return []Check{
			Judged("good", found(StatusPass, Pass), CheckPolicy{}),
			Judged("bad", found(StatusFail, outcome), CheckPolicy{Exhausted: Fatal}),
		}
	}
	cases := map[string]struct {
		checks  []Check
		rules   func(*Rules)
		outcome Outcome
		exit    int
	}{
		"nothing was wrong":                {checks: failed(Pass)[:1], outcome: Pass, exit: 0},
		"a warning lets the training run":  {checks: []Check{Judged("a", found(StatusWarn, Warning), CheckPolicy{})}, outcome: Warning, exit: 0},
		"a warning is 10 only if asked":    {checks: []Check{Judged("a", found(StatusWarn, Warning), CheckPolicy{})}, rules: func(r *Rules) { r.DetailedExitCode = true }, outcome: Warning, exit: 10},
		"retry":                            {checks: failed(Retryable), outcome: Retryable, exit: 20},
		"the last retry is given up":       {checks: failed(Retryable), rules: func(r *Rules) { r.Attempt = 3 }, outcome: Fatal, exit: 30},
		"without memory none is repeated":  {checks: failed(Retryable), rules: func(r *Rules) { r.Forgetful = true }, outcome: Fatal, exit: 30},
		"reschedule":                       {checks: failed(Reschedule), outcome: Reschedule, exit: 21},
		"reschedule under the KEP's codes": {checks: failed(Reschedule), rules: func(r *Rules) { r.NodeFailureExitCode = ExitStop }, outcome: Reschedule, exit: 30},
		"a second bad node in a row stops": {checks: failed(Reschedule), rules: func(r *Rules) { r.Restarts = 1 }, outcome: Fatal, exit: 30},
		"the first run reschedules":        {checks: failed(Reschedule), rules: func(r *Rules) { r.Restarts = 0 }, outcome: Reschedule, exit: 21},
		"stop":                             {checks: failed(Fatal), outcome: Fatal, exit: 30},
		"report only":                      {checks: failed(Fatal), rules: func(r *Rules) { r.ReportOnly = true }, outcome: Fatal, exit: 0},
		"fail on fatal alone":              {checks: failed(Reschedule), rules: func(r *Rules) { r.FailOn = Fatal }, outcome: Warning, exit: 0},
		"fail on fatal still fails":        {checks: failed(Fatal), rules: func(r *Rules) { r.FailOn = Fatal }, outcome: Fatal, exit: 30},
		"fail on warnings":                 {checks: []Check{Judged("a", found(StatusWarn, Warning), CheckPolicy{})}, rules: func(r *Rules) { r.FailOn = Warning }, outcome: Fatal, exit: 30},
		"an optional check only warns":     {checks: []Check{Judged("a", found(StatusFail, Fatal), CheckPolicy{Optional: true})}, outcome: Warning, exit: 0},
		"a check that could not be made":   {checks: []Check{Judged("a", found(StatusError, Warning), CheckPolicy{})}, outcome: Warning, exit: 0},
		"one that must be made":            {checks: []Check{Judged("a", found(StatusError, Warning), CheckPolicy{MustRun: true})}, outcome: Fatal, exit: 30},
		"the job's fault comes first":      {checks: append(failed(Reschedule), failed(Fatal)...), outcome: Fatal, exit: 30},
		"a node's fault before a retry":    {checks: append(failed(Retryable), failed(Reschedule)...), outcome: Reschedule, exit: 21},
		"a check with attempts of its own": {checks: []Check{Judged("a", found(StatusFail, Retryable), CheckPolicy{MaxAttempts: 2, Exhausted: Reschedule})}, rules: func(r *Rules) { r.Attempt = 2 }, outcome: Reschedule, exit: 21},
		"retry, reschedule, then stop":     {checks: []Check{Judged("a", found(StatusFail, Retryable), CheckPolicy{MaxAttempts: 2, Exhausted: Reschedule})}, rules: func(r *Rules) { r.Attempt, r.Restarts = 2, 1 }, outcome: Fatal, exit: 30},
		"what was skipped is no failure":   {checks: []Check{Judged("a", found(StatusSkipped, Pass), CheckPolicy{MustRun: true})}, outcome: Pass, exit: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rules := defaults()
			if tc.rules != nil {
				tc.rules(&rules)
			}
			r := Report{Checks: tc.checks}
			r.Conclude(rules)
			if r.Outcome != tc.outcome || r.ExitCode != tc.exit || r.Action != tc.outcome.Action() {
				t.Errorf("outcome %s, exit code %d, action %s; want %s and %d: %+v", r.Outcome, r.ExitCode, r.Action, tc.outcome, tc.exit, r)
			}
			if bad := tc.outcome.Worse(Pass); bad != (r.Reason == "Because") {
				t.Errorf("the reason is %s", r.Reason)
			}
		})
	}
}

func TestAnOutcomeThatWasTriedTooOftenSaysSo(t *testing.T) {
	rules := defaults()
	rules.Attempt = 3
	r := Report{Checks: []Check{Judged("dns", found(StatusFail, Retryable), CheckPolicy{Exhausted: Fatal})}}
	r.Conclude(rules)
	if want := "dns: so it is (attempt 3 of 3)"; r.Message != want {
		t.Errorf("the message is %q, want %q", r.Message, want)
	}
}

func TestTheTextNamesReasonHintAndOutcome(t *testing.T) {
	finding := found(StatusFail, Fatal)
	finding.Hint = "do this"
	rank := 2
	r := Report{Version: "v1", Node: "gpu-1", Rank: &rank, NNodes: 4, Checks: []Check{Judged("cuda", finding, CheckPolicy{})}, Notes: []string{"a note"}}
	r.Conclude(defaults())
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"on node gpu-1, rank 2 of 4", "a note", "FAIL", "Because: so it is [Fatal]", "hint: do this", "exit code 30, Stop"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, out.String())
		}
	}
}
