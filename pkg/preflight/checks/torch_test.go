package checks

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// torchrunScript stands in for torchrun: it notes how it was called.
func torchrunScript(rest string) map[string]string {
	return map[string]string{"torchrun": `[ "$1" = --help ] && exit 0
env | grep ^PET_ && { echo "RuntimeError: the job's variables came through" >&2; exit 1; }
echo "$*" >> "$CALLS"
` + rest}
}

const rightSum = `echo '{"preflight": "allreduce", "rank": 0, "world": 2, "backend": "gloo", "correct": true, "busGBps": 1.5}'`

func TestTorchrunOnThisNode(t *testing.T) {
	cases := map[string]struct {
		script  string
		status  report.Status
		reason  string
		outcome report.Outcome
	}{
		"the right sum":   {script: rightSum, status: report.StatusPass, reason: "Passed"},
		"a wrong sum":     {script: strings.ReplaceAll(rightSum, "true", "false") + "; exit 3", status: report.StatusFail, reason: "AllReduceWrong", outcome: report.Reschedule},
		"it says nothing": {script: "exit 0", status: report.StatusFail, reason: "AllReduceFailed", outcome: report.Reschedule},
		"an exception":    {script: "echo 'RuntimeError: no NCCL' >&2; echo more >&2; exit 1", status: report.StatusFail, reason: "AllReduceFailed", outcome: report.Reschedule},
		"it hangs":        {script: "sleep 600", status: report.StatusFail, reason: "AllReduceTimeout", outcome: report.Reschedule},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			calls := t.TempDir() + "/calls"
			env := here(t, torchrunScript(tc.script), "CALLS="+calls, "PET_NNODES=4", "PET_NODE_RANK=2", "PET_MASTER_ADDR=elsewhere", "PET_NPROC_PER_NODE=2")
			got := within(t, 2*time.Second, made(t, torchrunSpec), env)
			expect(t, got, tc.status, tc.reason)
			if tc.outcome != "" && got.Outcome != tc.outcome || name == "an exception" && !strings.Contains(got.Message, "RuntimeError: no NCCL") {
				t.Errorf("%+v", got)
			}
			called, err := os.ReadFile(calls)
			if err != nil || !strings.HasPrefix(string(called), "--nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --master-port ") || !strings.Contains(string(called), "--nproc-per-node 2 ") {
				t.Errorf("%v: torchrun was called with %s", err, called)
			}
		})
	}
	t.Run("there is no torchrun", func(t *testing.T) {
		env := here(t, map[string]string{"python3": "exit 1"})
		t.Setenv("PATH", env.Root+"/bin")
		expect(t, within(t, time.Second, made(t, torchrunSpec), env), report.StatusError, "ToolMissing")
	})
}

// Two ranks meet before torchrun is called, each with its own rank, on ports of their own.
func TestTorchrunAcrossNodes(t *testing.T) {
	calls := t.TempDir() + "/calls"
	ranks := job(t, 2)
	env := here(t, torchrunScript(rightSum))
	found := make(chan report.Finding, 2)
	for rank := range ranks {
		ranks[rank].Environ = append(ranks[rank].Environ, "CALLS="+calls, "PATH="+env.Get("PATH"))
		check := made(t, torchrunSpec, "--torchrun-across")
		go func() { found <- within(t, 30*time.Second, check, ranks[rank]) }()
	}
	for range ranks {
		expect(t, <-found, report.StatusPass, "Passed")
	}
	called, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--nnodes 2 --node-rank 0 --master-addr 127.0.0.1", "--nnodes 2 --node-rank 1 --master-addr 127.0.0.1"} {
		if !strings.Contains(string(called), want) {
			t.Errorf("no call with %q:\n%s", want, called)
		}
	}
}

func TestTorchrunAcrossNodesNeverBlamesOne(t *testing.T) {
	ranks := job(t, 2)
	env := here(t, torchrunScript("exit 1"))
	ranks[0].Environ = append(ranks[0].Environ, "PATH="+env.Get("PATH"))
	got := within(t, 2*time.Second, made(t, torchrunSpec, "--torchrun-across"), ranks[0])
	if got.Reason != "PeersMissing" || got.Outcome != report.Retryable || got.Scope != report.ScopePeer {
		t.Errorf("a rank is missing: %+v", got)
	}
	at := place{rank: 0, nodes: 2, address: "127.0.0.1", port: 29500}
	_, finding := allreduce{backend: "gloo", processes: 1, at: &at}.run(t.Context(), env)
	if finding == nil || finding.Outcome != report.Retryable || finding.Scope != report.ScopePeer {
		t.Errorf("torchrun failed: %+v", finding)
	}
}

// The script itself, where torch is installed.
func TestTheRealTorchrunSumsOnTheCPU(t *testing.T) {
	if _, err := exec.LookPath("torchrun"); err != nil {
		t.Skip("torchrun is not installed here: the script allreduce.py is not run")
	}
	env := here(t, nil)
	env.Environ = os.Environ()
	expect(t, within(t, 2*time.Minute, made(t, torchrunSpec, "--torchrun-processes=2", "--torchrun-backend=gloo"), env), report.StatusPass, "Passed")
}

// What all_reduce_perf prints, cut to its last lines; see nccl-tests.
const ncclTail = `#                                                              out-of-place                       in-place
   268435456      67108864     float     sum      -1   1000.0  268.44  469.76      0   1000.0  268.44  469.76      0
# Out of bounds values : WRONG OK
# Avg bus bandwidth    : SPEED
#
`

func TestWhatNCCLSays(t *testing.T) {
	cases := map[string]struct {
		wrong, speed, flag string
		exit               string
		status             report.Status
		reason             string
	}{
		"fast":             {wrong: "0", speed: "372.517", flag: "--nccl-min-busbw=150", status: report.StatusPass, reason: "Passed"},
		"slow":             {wrong: "0", speed: "12.25", flag: "--nccl-min-busbw=150", status: report.StatusFail, reason: "NCCLSlow"},
		"slow, no limit":   {wrong: "0", speed: "12.25", flag: "--nccl-min-busbw=0", status: report.StatusPass, reason: "Passed"},
		"wrong":            {wrong: "7", speed: "372.5", flag: "--nccl-min-busbw=0", status: report.StatusFail, reason: "NCCLWrongData"},
		"it failed":        {wrong: "0", speed: "372.5", exit: "exit 3", flag: "--nccl-min-busbw=0", status: report.StatusFail, reason: "NCCLFailed"},
		"it hangs":         {exit: "sleep 600", flag: "--nccl-min-busbw=0", status: report.StatusFail, reason: "NCCLTimeout"},
		"it says no speed": {wrong: "0", speed: "fast", flag: "--nccl-min-busbw=0", status: report.StatusError, reason: "NCCLOutputUnknown"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("WRONG", tc.wrong, "SPEED", tc.speed).Replace(ncclTail)
			env := here(t, map[string]string{
				"nvidia-smi":      smi(t, "healthy-h100-535"),
				"all_reduce_perf": `[ "$*" = "-b 8 -e 256M -f 2 -g 8" ] || exit 99` + "\ncat <<'END'\n" + text + "END\n" + tc.exit,
			})
			got := within(t, 2*time.Second, made(t, ncclSpec, tc.flag), env)
			expect(t, got, tc.status, tc.reason)
			if got.Status == report.StatusFail && got.Outcome != report.Retryable {
				t.Errorf("the outcome is %s", got.Outcome)
			}
		})
	}
	expect(t, within(t, time.Second, made(t, ncclSpec), here(t, nil)), report.StatusSkipped, "NoGPU")
	expect(t, within(t, time.Second, made(t, ncclSpec, "--nccl-gpus=2"), here(t, nil)), report.StatusError, "ToolMissing")
}
