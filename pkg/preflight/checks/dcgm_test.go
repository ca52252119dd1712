package checks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

func TestWhatDCGMSays(t *testing.T) {
	cases := map[string]struct {
		file    string
		exit    int
		status  report.Status
		reason  string
		outcome report.Outcome
		message string
	}{
		"DCGM 3 passes":              {file: "pass-3.json", status: report.StatusPass, reason: "Passed"},
		"DCGM 3 fails and says 226":  {file: "fail-3.json", exit: 226, status: report.StatusFail, reason: "DCGMFailed", outcome: report.Reschedule, message: "GPU Memory (GPU 1) Detected 2 uncorrectable ECC errors"},
		"DCGM 3 fails and says 0":    {file: "fail-3.json", status: report.StatusFail, reason: "DCGMFailed", outcome: report.Reschedule},
		"DCGM 4 fails":               {file: "fail-4.json", exit: 226, status: report.StatusFail, reason: "DCGMFailed", outcome: report.Reschedule, message: "software (GPU 3) Pending row remappings"},
		"DCGM 4 warns":               {file: "warn-4.json", status: report.StatusWarn, reason: "DCGMWarning", message: "Persistence mode is off"},
		"a skip is no pass":          {file: "skipped-4.json", status: report.StatusSkipped, reason: "DCGMSkipped"},
		"isolate the GPU":            {exit: 205, status: report.StatusFail, reason: "DCGMFailed", outcome: report.Reschedule},
		"another diagnosis runs":     {exit: 217, status: report.StatusFail, reason: "DCGMBusy", outcome: report.Retryable},
		"it could not be started":    {exit: 215, status: report.StatusFail, reason: "DCGMBusy", outcome: report.Retryable},
		"it was killed":              {exit: 203, status: report.StatusFail, reason: "DCGMBusy", outcome: report.Retryable},
		"there is no nvvs":           {exit: 204, status: report.StatusError, reason: "DCGMNotRun"},
		"there is no such test":      {exit: 198, status: report.StatusError, reason: "DCGMNotRun"},
		"an answer that is no JSON":  {status: report.StatusError, reason: "DCGMNotRun"},
		"warnings before the answer": {file: "pass-3.json", exit: -1, status: report.StatusPass, reason: "Passed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			script := "echo Some words\n"
			if tc.file != "" {
				path, err := filepath.Abs(filepath.Join("testdata", "dcgmi", tc.file))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(path); err != nil {
					t.Fatal(err)
				}
				script += "cat '" + path + "'\n"
			}
			env := here(t, map[string]string{"dcgmi": `[ "$*" = "diag -r 1 --json" ] || exit 99
` + script + fmt.Sprintf("exit %d\n", max(0, tc.exit))})
			got := within(t, 10*time.Second, made(t, dcgmSpec), env)
			expect(t, got, tc.status, tc.reason)
			if tc.outcome != "" && got.Outcome != tc.outcome || !strings.Contains(got.Message, tc.message) {
				t.Errorf("outcome %s, message %q", got.Outcome, got.Message)
			}
		})
	}
}

func TestDCGMIsAskedAtItsHost(t *testing.T) {
	env := here(t, map[string]string{"dcgmi": `[ "$*" = "diag -r 2 --json --host nvidia-dcgm:5555" ] || exit 99
echo '{"DCGM Diagnostic":{"test_categories":[{"tests":[{"name":"a","results":[{"status":"Pass"}]}]}]}}'`})
	expect(t, within(t, 10*time.Second, made(t, dcgmSpec, "--dcgm-level=2", "--dcgm-host=nvidia-dcgm:5555"), env), report.StatusPass, "Passed")
}

func TestDCGMMissingOrHung(t *testing.T) {
	expect(t, within(t, time.Second, made(t, dcgmSpec), here(t, nil)), report.StatusError, "ToolMissing")
	expect(t, within(t, 300*time.Millisecond, made(t, dcgmSpec), here(t, map[string]string{"dcgmi": "sleep 600"})), report.StatusFail, "DCGMTimeout")
}
