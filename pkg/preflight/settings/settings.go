package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// Settings of a run.
type Settings struct {
	Config           string
	Checks, Skip     []string
	Output           string
	ReportFile       string
	TerminationLog   string
	TerminationBytes int
	Timeout          time.Duration
	ReportOnly       bool
	Disable          bool
	DetailedExitCode bool
	FailOn           string
	OnError          string
	StateDir         string
	MaxAttempts      int
	NodeFailureCode  int
	MaxReschedules   int
	RestartAttempt   int
	Node             string
	Pod              string
	Namespace        string

	// Each holds the checks by name, all that there are.
	Each map[string]*Check
}

// Check is one check, bound to its own settings, and what is common to all.
type Check struct {
	checks.Spec
	Made checks.Check
	// Required is auto, true or false.
	Required string
	// ExhaustedAs is Stop or Reschedule.
	ExhaustedAs string
}

// DefaultTerminationLog is where a kubelet looks for a container's last words.
const DefaultTerminationLog = "/dev/termination-log"

// New binds all settings to flags.
func New(flags *pflag.FlagSet) *Settings {
	s := &Settings{Each: map[string]*Check{}}
	var names, byDefault []string
	for _, spec := range checks.All() {
		names = append(names, spec.Name)
		if spec.Default {
			byDefault = append(byDefault, spec.Name)
		}
	}
	flags.StringVar(&s.Config, "config", "", "file with settings, YAML or JSON")
	flags.StringSliceVar(&s.Checks, "checks", byDefault, "checks to run, of "+strings.Join(names, ", "))
	flags.StringSliceVar(&s.Skip, "skip", nil, "checks to leave out of these")
	flags.StringVarP(&s.Output, "output", "o", "text", "text or json; text goes to standard error in any case, JSON to standard output")
	flags.StringVar(&s.ReportFile, "report-file", "", "file for the full report as JSON")
	flags.StringVar(&s.TerminationLog, "termination-log", DefaultTerminationLog, "file for the short report; the default is written to only if it is there")
	flags.IntVar(&s.TerminationBytes, "termination-bytes", 2000, "size of the short report: more would be cut by the kubelet")
	flags.DurationVar(&s.Timeout, "timeout", 5*time.Minute, "time for all; when it is over, the run is to be tried again (20)")
	flags.BoolVar(&s.ReportOnly, "report-only", false, "look at everything, and exit with 0 in any case")
	flags.BoolVar(&s.Disable, "disable", false, "look at nothing, and exit with 0")
	flags.BoolVar(&s.DetailedExitCode, "detailed-exitcode", false, "exit with 10 on a warning; in a pod that would be a failure")
	flags.StringVar(&s.FailOn, "fail-on", "retryable", "mildest outcome that fails: warning (stops the job), retryable, or fatal (all below are warnings)")
	flags.StringVar(&s.OnError, "on-error", "warn", "what a check that cannot be made is, such as for a tool that is missing: warn or fail; of a check whose required is true it is always a failure")
	flags.StringVar(&s.StateDir, "state-dir", "", "folder that outlives the container, for counting attempts; without it, restarts of the job count")
	flags.IntVar(&s.MaxAttempts, "max-attempts", 3, "attempts over restarts, after which 20 becomes 21 or 30, as the check's exhausted says")
	flags.IntVar(&s.NodeFailureCode, "node-failure-exit-code", report.ExitReschedule, "exit code for a faulty node: 21, or 30 where nothing reschedules")
	flags.IntVar(&s.MaxReschedules, "max-reschedules", 1, "restarts of the job after which a faulty node stops it")
	flags.IntVar(&s.RestartAttempt, "restart-attempt", -1, "restarts of the job so far: the pod label jobset.sigs.k8s.io/restart-attempt; -1 is unknown")
	flags.StringVar(&s.Node, "node", "", "name of the node, for the report")
	flags.StringVar(&s.Pod, "pod", "", "name of the pod, for the report")
	flags.StringVar(&s.Namespace, "namespace", "", "namespace of the pod, for the report")
	for _, spec := range checks.All() {
		s.Each[spec.Name] = bind(flags, spec)
	}
	return s
}

// bind adds the settings that every check has, and its own.
func bind(flags *pflag.FlagSet, spec checks.Spec) *Check {
	c := &Check{Spec: spec}
	name := spec.Name
	flags.DurationVar(&c.Timeout, name+"-timeout", spec.Timeout, "time for one attempt")
	flags.IntVar(&c.Attempts, name+"-attempts", spec.Attempts, "attempts in one run")
	flags.DurationVar(&c.Backoff, name+"-backoff", spec.Backoff, "pause before the second attempt; it doubles")
	flags.StringVar(&c.Required, name+"-required", "auto", "false: failures are warnings; true: not being able to check is a failure too")
	flags.IntVar(&c.MaxAttempts, name+"-max-attempts", spec.MaxAttempts, "attempts over restarts; 0 is --max-attempts")
	flags.StringVar(&c.ExhaustedAs, name+"-exhausted", string(spec.Exhausted.Action()), "what follows the last attempt over restarts: Stop or Reschedule")
	c.Made = spec.New(flags)
	return c
}

// validate returns the first thing that is wrong, with the value and what may be instead.
func (s *Settings) validate() error {
	for _, name := range append(slices.Clone(s.Checks), s.Skip...) {
		if s.Each[name] == nil {
			return fmt.Errorf("there is no check %q", name)
		}
	}
	for _, choice := range []struct {
		name, value string
		of          []string
	}{
		{"output", s.Output, []string{"text", "json"}},
		{"fail-on", s.FailOn, []string{"warning", "retryable", "fatal"}},
		{"on-error", s.OnError, []string{"warn", "fail"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return fmt.Errorf("%s is %q, not one of %s", choice.name, choice.value, strings.Join(choice.of, ", "))
		}
	}
	if s.NodeFailureCode != report.ExitReschedule && s.NodeFailureCode != report.ExitStop {
		return fmt.Errorf("node-failure-exit-code is %d, not 21 or 30", s.NodeFailureCode)
	}
	if s.Timeout <= 0 || s.MaxAttempts < 1 || s.MaxReschedules < 0 || s.TerminationBytes < 1 {
		return fmt.Errorf("timeout (%s), max-attempts (%d) and termination-bytes (%d) must be positive, max-reschedules (%d) not negative",
			s.Timeout, s.MaxAttempts, s.TerminationBytes, s.MaxReschedules)
	}
	for _, spec := range checks.All() {
		if err := s.Each[spec.Name].validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Check) validate() error {
	switch {
	case c.Timeout <= 0 || c.Attempts < 1 || c.Backoff < 0 || c.MaxAttempts < 0:
		return fmt.Errorf("%s-timeout (%s) and %s-attempts (%d) must be positive, %s-backoff (%s) and %s-max-attempts (%d) not negative",
			c.Name, c.Timeout, c.Name, c.Attempts, c.Name, c.Backoff, c.Name, c.MaxAttempts)
	case !slices.Contains([]string{"auto", "true", "false"}, c.Required):
		return fmt.Errorf("%s-required is %q, not auto, true or false", c.Name, c.Required)
	case c.ExhaustedAs != string(report.Stop) && c.ExhaustedAs != string(report.RescheduleAction):
		return fmt.Errorf("%s-exhausted is %q, not Stop or Reschedule", c.Name, c.ExhaustedAs)
	}
	return nil
}

// Policy of the check, for the report's rules.
func (c *Check) Policy(onError string) report.CheckPolicy {
	policy := report.CheckPolicy{Optional: c.Required == "false", MustRun: c.Required == "true" || onError == "fail", MaxAttempts: c.MaxAttempts, Exhausted: report.Fatal}
	if c.ExhaustedAs == string(report.RescheduleAction) {
		policy.Exhausted = report.Reschedule
	}
	return policy
}

// Rules of the run, but for its attempt.
func (s *Settings) Rules() report.Rules {
	failOn := map[string]report.Outcome{"warning": report.Warning, "retryable": report.Retryable, "fatal": report.Fatal}[s.FailOn]
	return report.Rules{
		FailOn: failOn, Attempt: 1, MaxAttempts: s.MaxAttempts, Restarts: s.RestartAttempt, MaxReschedules: s.MaxReschedules,
		ReportOnly: s.ReportOnly, DetailedExitCode: s.DetailedExitCode, NodeFailureExitCode: s.NodeFailureCode,
	}
}

// Chosen checks, in the order of reports.
func (s *Settings) Chosen() []*Check {
	var chosen []*Check
	for _, spec := range checks.All() {
		if slices.Contains(s.Checks, spec.Name) && !slices.Contains(s.Skip, spec.Name) {
			chosen = append(chosen, s.Each[spec.Name])
		}
	}
	return chosen
}
