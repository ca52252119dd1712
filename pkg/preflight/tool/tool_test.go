package tool

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(script string) Command {
	return Command{Path: "sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func TestAProgramThatEndsIsReadInFull(t *testing.T) {
	got := Run(t.Context(), shell("echo out; echo err >&2; exit 7"))
	if got.Stdout != "out\n" || got.Stderr != "err\n" || got.ExitCode != 7 || got.Err != nil || got.TimedOut {
		t.Errorf("%+v", got)
	}
	if got.Said() != "err" {
		t.Errorf("it said %q", got.Said())
	}
}

func TestAProgramThatIsNotThereIsMissing(t *testing.T) {
	if got := Run(t.Context(), Command{Path: "no-such-program"}); !got.Missing || got.Err == nil || got.ExitCode == 0 {
		t.Errorf("%+v", got)
	}
}

func TestLongOutputIsKeptInPart(t *testing.T) {
	got := Run(t.Context(), shell("yes | head -c 3000000; yes | head -c 100000 >&2; echo the end >&2"))
	if len(got.Stdout) != keptOfStdout || len(got.Stderr) != keptOfStderr || !strings.HasSuffix(got.Stderr, "the end\n") || got.ExitCode != 0 {
		t.Errorf("%d and %d bytes, exit code %d", len(got.Stdout), len(got.Stderr), got.ExitCode)
	}
}

// A child that ignores SIGTERM, and a grandchild that keeps its output open.
func TestWhatHangsIsKilledWithAllItsChildren(t *testing.T) {
	for name, script := range map[string]string{
		"the child hangs":      "trap '' TERM INT; echo $$; while :; do sleep 60; done",
		"a grandchild hangs":   "sleep 600 & echo $!; wait",
		"it reads for nothing": "echo $$; exec cat /dev/zero >/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			got := Run(ctx, shell(script))
			if !got.TimedOut || got.Abandoned || got.ExitCode != -1 {
				t.Errorf("%+v", got)
			}
			gone(t, strings.TrimSpace(got.Stdout))
		})
	}
}

func TestAGrandchildThatKeepsTheOutputOpenHoldsNobodyUp(t *testing.T) {
	got := Run(t.Context(), shell("sleep 600 & echo $!"))
	if got.ExitCode != 0 || got.TimedOut || got.Err != nil {
		t.Errorf("%+v", got)
	}
	gone(t, strings.TrimSpace(got.Stdout))
}

func TestATimeThatIsOverStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Run(ctx, shell("echo ran")); !got.TimedOut || got.Stdout != "" {
		t.Errorf("%+v", got)
	}
}

// gone waits until a process has ended: nobody may be left behind.
func gone(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the script printed no process id: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(number, 0) != nil || zombie(pid) {
			return
		}
	}
	t.Errorf("process %s lives on", pid)
}

// zombie is an orphan that has ended, and waits for an init that does not collect it.
func zombie(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && strings.Contains(string(data), ") Z ")
}
