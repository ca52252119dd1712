package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// longestMessage of a check or report in the compact form, in bytes.
const longestMessage = 160

// Compact is the report as JSON of at most limit bytes, for a termination message: only
// checks that did not pass, shortened, the worst kept and the others counted as omitted.
// A limit too small for any report gives an error.
func (r Report) Compact(limit int) ([]byte, error) {
	r.Message = shortened(r.Message)
	r.Notes = nil
	all := r.Checks
	r.Checks, r.Omitted = nil, 0
	for severity := len(Outcomes) - 1; severity >= 0; severity-- {
		for _, check := range all {
			if check.Outcome.severity() != severity || check.Status == StatusPass || check.Status == StatusSkipped {
				continue
			}
			check.Message, check.Hint = shortened(check.Message), shortened(check.Hint)
			check.Observed, check.Expected = nil, nil
			r.Checks = append(r.Checks, check)
		}
	}
	r.Omitted = len(all) - len(r.Checks)
	for {
		if r.Checks == nil {
			r.Checks = []Check{}
		}
		data, err := json.Marshal(r)
		if err != nil || len(data) <= limit {
			return data, err
		}
		if len(r.Checks) == 0 {
			return nil, fmt.Errorf("the shortest report has %d bytes, the limit is %d", len(data), limit)
		}
		r.Checks = r.Checks[:len(r.Checks)-1]
		r.Omitted++
	}
}

func shortened(text string) string {
	if len(text) <= longestMessage {
		return text
	}
	const more = "…"
	end := longestMessage - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// Parse reads a report, full or compact. It accepts fields that it does not know: the
// binary in a job's image may be newer.
func Parse(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, err
	}
	if r.APIVersion != APIVersion || r.Kind != Kind {
		return Report{}, fmt.Errorf("it is %s %s, not %s %s", r.APIVersion, r.Kind, APIVersion, Kind)
	}
	if r.Outcome.severity() < 0 {
		return Report{}, fmt.Errorf("outcome %q is none of %v", r.Outcome, Outcomes)
	}
	return r, nil
}

// Text writes the report for people.
func (r Report) Text(w io.Writer) error {
	var out strings.Builder
	out.WriteString("preflight " + r.Version)
	if r.Node != "" {
		out.WriteString(" on node " + r.Node)
	}
	if r.Rank != nil {
		fmt.Fprintf(&out, ", rank %d of %d", *r.Rank, r.NNodes)
	}
	fmt.Fprintf(&out, ", attempt %d of %d\n", r.Attempt, r.MaxAttempts)
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "  note      %s\n", note)
	}
	for _, check := range r.Checks {
		fmt.Fprintf(&out, "  %-8s  %-8s  %6s  %s\n", strings.ToUpper(string(check.Status)), check.Name, seconds(check.DurationMS), described(check))
		if check.Hint != "" {
			fmt.Fprintf(&out, "                              hint: %s\n", check.Hint)
		}
	}
	fmt.Fprintf(&out, "%s after %s: %s: %s (exit code %d, %s)\n", r.Outcome, seconds(r.DurationMS), r.Reason, r.Message, r.ExitCode, r.Action)
	_, err := io.WriteString(w, out.String())
	return err
}

func described(check Check) string {
	if check.Status == StatusPass {
		return check.Message
	}
	text := check.Reason + ": " + check.Message
	if check.Status == StatusFail || check.Outcome.Worse(Warning) {
		text += " [" + string(check.Outcome) + "]"
	}
	return text
}

func seconds(ms int64) string {
	return fmt.Sprintf("%.2fs", (time.Duration(ms) * time.Millisecond).Seconds())
}
