package report

import "fmt"

// CheckPolicy is how a check's failure is taken.
type CheckPolicy struct {
	// Optional failures are warnings.
	Optional bool
	// MustRun makes a failure of a check that could not be made.
	MustRun bool
	// MaxAttempts before Retryable becomes Exhausted; 0 is that of the run.
	MaxAttempts int
	// Exhausted is Fatal or Reschedule.
	Exhausted Outcome
}

// Rules turn findings into an outcome and an exit code.
type Rules struct {
	// FailOn is the mildest outcome that fails: Warning, Retryable or Fatal.
	FailOn Outcome
	// Attempt is the number of this run, from 1; at MaxAttempts a retry is no more offered.
	Attempt, MaxAttempts int
	// Forgetful runs cannot count their attempts, so none of them may ask for a retry.
	Forgetful bool
	// Restarts of the whole job so far; -1 if unknown. From MaxReschedules on, a faulty
	// node stops the job.
	Restarts, MaxReschedules int
	ReportOnly               bool
	DetailedExitCode         bool
	// NodeFailureExitCode is 21, or 30 where nothing reschedules.
	NodeFailureExitCode int
}

// Judged is a check's result, its outcome not yet settled.
func Judged(name string, finding Finding, policy CheckPolicy) Check {
	return Check{Name: name, Finding: finding, Required: !policy.Optional, policy: policy}
}

// Conclude settles the outcome of every check and of the report, and its exit code.
func (r *Report) Conclude(rules Rules) {
	r.APIVersion, r.Kind = APIVersion, Kind
	r.Attempt, r.MaxAttempts = rules.Attempt, rules.MaxAttempts
	worst := -1
	for i := range r.Checks {
		check := &r.Checks[i]
		rules.settle(check)
		check.Action = check.Outcome.Action()
		if worst < 0 || check.Outcome.Worse(r.Checks[worst].Outcome) {
			worst = i
		}
	}
	r.Outcome, r.Reason, r.Message = Pass, ReasonPassed, passed(r.Checks)
	if worst >= 0 && r.Checks[worst].Outcome.Worse(Pass) {
		found := r.Checks[worst]
		r.Outcome, r.Reason, r.Message = found.Outcome, found.Reason, found.Name+": "+found.Message
	}
	r.End(rules)
}

// End gives a report whose outcome is settled its action and exit code.
func (r *Report) End(rules Rules) {
	r.Action = r.Outcome.Action()
	r.ExitCode = rules.exitCode(r.Outcome)
}

func passed(checks []Check) string {
	made := 0
	for _, check := range checks {
		if check.Status == StatusPass {
			made++
		}
	}
	return fmt.Sprintf("%d checks passed, %d had nothing to look at", made, len(checks)-made)
}

// settle makes the outcome of a check out of its status and the rules.
func (rules Rules) settle(check *Check) {
	switch check.Status {
	case StatusPass, StatusSkipped:
		check.Outcome = Pass
	case StatusWarn:
		check.Outcome = Warning
	case StatusError:
		check.Outcome = Warning
		if check.policy.MustRun {
			check.Outcome = Fatal
		}
	}
	if check.Outcome.Worse(Warning) && check.policy.Optional {
		check.Outcome = Warning
	}
	rules.escalate(check)
	switch {
	case rules.FailOn == Fatal && check.Outcome != Fatal && check.Outcome.Worse(Warning):
		check.Outcome = Warning
	case rules.FailOn == Warning && check.Outcome == Warning:
		check.Outcome = Fatal
	}
}

// escalate goes on from retry to reschedule to stop, so that nothing is tried for ever.
func (rules Rules) escalate(check *Check) {
	limit := check.policy.MaxAttempts
	if limit == 0 {
		limit = rules.MaxAttempts
	}
	if check.Outcome == Retryable && (rules.Forgetful || rules.Attempt >= limit) {
		check.Outcome = check.policy.Exhausted
		check.Message = fmt.Sprintf("%s (attempt %d of %d)", check.Message, rules.Attempt, limit)
	}
	if check.Outcome == Reschedule && rules.Restarts >= 0 && rules.Restarts >= rules.MaxReschedules {
		check.Outcome = Fatal
		check.Message = fmt.Sprintf("%s (after %d restarts of the job)", check.Message, rules.Restarts)
	}
}

func (rules Rules) exitCode(outcome Outcome) int {
	if rules.ReportOnly {
		return ExitPass
	}
	switch outcome {
	case Warning:
		if rules.DetailedExitCode {
			return ExitWarning
		}
	case Retryable:
		return ExitRetry
	case Reschedule:
		return rules.NodeFailureExitCode
	case Fatal:
		return ExitStop
	}
	return ExitPass
}
