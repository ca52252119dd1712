package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

var dcgmSpec = Spec{
	Name: "dcgm", Proves: "NVIDIA's own diagnosis of the GPUs passes",
	Stage: Expensive, Timeout: 120 * time.Second, Attempts: 1, Exhausted: report.Reschedule, Failure: "21; another diagnosis running: 20, then 21",
	New: func(flags *pflag.FlagSet) Check {
		c := &dcgm{}
		flags.IntVar(&c.level, "dcgm-level", 1, "level of the diagnosis: 1 takes seconds, 2 two minutes, 3 a quarter of an hour; raise --dcgm-timeout with it")
		flags.StringVar(&c.host, "dcgm-host", "", "host engine to ask, host:port; by default the one in this container")
		return c
	},
}

type dcgm struct {
	level int
	host  string
}

func (c *dcgm) Run(ctx context.Context, env Env) report.Finding {
	args := []string{"diag", "-r", strconv.Itoa(c.level), "--json"}
	if c.host != "" {
		args = append(args, "--host", c.host)
	}
	result := env.run(ctx, "dcgmi", args...)
	if result.Missing {
		return missing("dcgmi", "use an image with datacenter-gpu-manager, or leave the check out")
	}
	if result.TimedOut {
		return fail(report.Reschedule, report.ScopeNode, "DCGMTimeout", "the diagnosis did not end in its time", "raise --dcgm-timeout if the level needs more; else look at the node")
	}
	seen, parsed := parseDCGM(result.Stdout)
	finding := dcgmVerdict(result.ExitCode, result.Said(), seen, parsed)
	finding.Expected = map[string]string{"level": strconv.Itoa(c.level)}
	return finding
}

// dcgmVerdict goes by the results; where there are none, by the exit code. From the list
// of return codes in DCGM's dcgm_structs.h, as a shell sees negative ones.
func dcgmVerdict(code int, said string, seen dcgmSeen, parsed bool) report.Finding {
	switch {
	case code == 217 || code == 215 || code == 203:
		return fail(report.Retryable, report.ScopeNode, "DCGMBusy", fmt.Sprintf("dcgmi ended with %d: %s", code, said), "wait until no other diagnosis runs on the node")
	case len(seen.failed) > 0:
		finding := fail(report.Reschedule, report.ScopeNode, "DCGMFailed", "failed: "+strings.Join(seen.failed, "; "), hintExclude)
		finding.Final = true
		return finding
	case code == 226 || code == 205:
		return fail(report.Reschedule, report.ScopeNode, "DCGMFailed", fmt.Sprintf("dcgmi ended with %d: %s", code, said), hintExclude)
	case code != 0 || !parsed:
		return notRun("DCGMNotRun", fmt.Sprintf("dcgmi ended with %d: %s", code, said), "see that a host engine runs, and that it fits the version of dcgmi")
	case len(seen.warned) > 0:
		return warn(report.ScopeNode, "DCGMWarning", strings.Join(seen.warned, "; "), "look at the node when it is idle")
	case seen.passed == 0:
		return skip("DCGMSkipped", "dcgmi skipped every test")
	}
	return pass(fmt.Sprintf("%d tests passed", seen.passed))
}

// dcgmSeen is what the tests of a diagnosis say.
type dcgmSeen struct {
	passed         int
	failed, warned []string
}

// parseDCGM reads the JSON of DCGM 2 to 4. They differ in the name at the top, in what
// identifies a GPU, and in the form of warnings. Lines may stand before it.
func parseDCGM(text string) (dcgmSeen, bool) {
	start := strings.Index(text, "{")
	if start < 0 {
		return dcgmSeen{}, false
	}
	type results struct {
		Categories []struct {
			Tests []*struct {
				Name    string
				Results []struct {
					Status   string
					GPUs     string          `json:"gpu_ids"`
					Entity   *int            `json:"entity_id"`
					Warnings json.RawMessage `json:"warnings"`
				}
			}
		} `json:"test_categories"`
	}
	var file map[string]json.RawMessage
	if json.NewDecoder(strings.NewReader(text[start:])).Decode(&file) != nil {
		return dcgmSeen{}, false
	}
	var seen dcgmSeen
	found := false
	for _, name := range []string{"DCGM GPU Diagnostic", "DCGM Diagnostic"} {
		var parsed results
		if file[name] == nil || json.Unmarshal(file[name], &parsed) != nil {
			continue
		}
		found = true
		for _, category := range parsed.Categories {
			for _, test := range category.Tests {
				if test == nil {
					continue
				}
				for _, result := range test.Results {
					gpu := result.GPUs
					if result.Entity != nil {
						gpu = strconv.Itoa(*result.Entity)
					}
					line := strings.TrimSpace(fmt.Sprintf("%s (GPU %s) %s", test.Name, gpu, warnings(result.Warnings)))
					switch strings.ToLower(result.Status) {
					case "pass":
						seen.passed++
					case "fail":
						seen.failed = append(seen.failed, line)
					case "warn":
						seen.warned = append(seen.warned, line)
					}
				}
			}
		}
	}
	return seen, found
}

// warnings are a sentence, a list of them, or a list of objects with one.
func warnings(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var some []string
	if json.Unmarshal(raw, &some) == nil {
		return strings.Join(some, ", ")
	}
	var objects []struct{ Warning string }
	if json.Unmarshal(raw, &objects) != nil {
		return ""
	}
	for _, object := range objects {
		some = append(some, object.Warning)
	}
	return strings.Join(slices.DeleteFunc(some, func(s string) bool { return s == "" }), ", ")
}
