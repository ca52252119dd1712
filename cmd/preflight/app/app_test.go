package app

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/checks"
	"github.com/trainjob/controller/pkg/preflight/report"
)

// built is the binary as it is shipped.
var built string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "preflight-test-")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(folder, "preflight")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/trainjob/controller/cmd/preflight/app.version=v1.2.3", "-o", built, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// ended is how a call of the binary ended.
type ended struct {
	exit                        int
	stdout, stderr, termination string
}

// call runs the binary with a termination log of its own.
func call(t *testing.T, environ []string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	termination := filepath.Join(t.TempDir(), "termination-log")
	cmd := exec.CommandContext(ctx, built, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "PREFLIGHT_TERMINATION_LOG=" + termination}, environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	last, err := os.ReadFile(termination)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), string(last)}
}

func TestTheBinaryIsSmallAndStatic(t *testing.T) {
	info, err := os.Stat(built)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 15_000_000 {
		t.Errorf("the binary has %d bytes", info.Size())
	}
	if runtime.GOOS != "linux" {
		t.Skip("what follows looks at a Linux binary")
	}
	file, err := elf.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 || file.Section(".interp") != nil {
		t.Errorf("%v: it needs %v: it would not run in an image without them", err, libraries)
	}
}

// The same answer from the log, from standard output, from the file and from the
// termination message.
func TestOneAnswerInFourPlaces(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	file := filepath.Join(t.TempDir(), "report.json")
	got := call(t, []string{"PREFLIGHT_NODE=gpu-17", "PET_NODE_RANK=3", "PET_NNODES=4"},
		"run", "--checks=storage,gpu", "--storage-path="+missing, "-o", "json", "--report-file="+file)
	if got.exit != report.ExitStop {
		t.Fatalf("%+v", got)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{"standard output": got.stdout, "the file": string(written), "the termination message": got.termination} {
		r, err := report.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v: %s", place, err, text)
			continue
		}
		if r.Reason != "StorageMissing" || r.ExitCode != report.ExitStop || r.Node != "gpu-17" || *r.Rank != 3 || r.Version != "v1.2.3" {
			t.Errorf("%s: %+v", place, r)
		}
	}
	if !strings.Contains(got.stderr, "StorageMissing") || !strings.Contains(got.stderr, "hint: ") {
		t.Errorf("the log says %s", got.stderr)
	}
	if len(got.termination) > 2000 {
		t.Errorf("the termination message has %d bytes", len(got.termination))
	}
}

func TestACleanRunExitsWithNothing(t *testing.T) {
	got := call(t, nil, "run", "--checks=storage", "--storage-path="+t.TempDir())
	if got.exit != 0 || !strings.Contains(got.termination, `"outcome":"Pass"`) || got.stdout != "" {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsWronglySetUpStopsTheJob(t *testing.T) {
	for name, tc := range map[string]struct {
		environ, args []string
		says          string
	}{
		"a flag nobody knows":        {args: []string{"run", "--no-such-flag"}, says: "no-such-flag"},
		"a check nobody knows":       {args: []string{"check", "gpus"}, says: "there is no check"},
		"a variable that is no time": {environ: []string{"PREFLIGHT_TIMEOUT=soon"}, args: []string{"run"}, says: "PREFLIGHT_TIMEOUT"},
		"a file that is not there":   {args: []string{"run", "--config=/no/such"}, says: "/no/such"},
		"no check":                   {args: []string{"check"}, says: "there is no check"},
		"too many words":             {args: []string{"run", "gpu"}, says: "gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, tc.environ, tc.args...)
			if got.exit != report.ExitStop || !strings.Contains(got.termination, "InvalidConfig") || !strings.Contains(got.termination, tc.says) {
				t.Errorf("%+v", got)
			}
			if reported := call(t, append(tc.environ, "PREFLIGHT_REPORT_ONLY=true"), tc.args...); reported.exit != 0 {
				t.Errorf("report only: %+v", reported)
			}
		})
	}
}

func TestTheSwitchWorksWhateverElseIsWrong(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"run", "--storage-path=/no/such"}, {"check", "storage", "--path=/no/such"}} {
		got := call(t, []string{"PREFLIGHT_DISABLE=true", "PREFLIGHT_TIMEOUT=soon"}, args...)
		if got.exit != 0 || !strings.Contains(got.termination, `"outcome":"Skipped"`) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestACallWithoutACommandIsNoSuccess(t *testing.T) {
	if got := call(t, nil); got.exit != report.ExitStop || !strings.Contains(got.stdout, "Usage") {
		t.Errorf("%+v", got)
	}
}

func TestReportOnlyTellsAndLetsGo(t *testing.T) {
	got := call(t, []string{"PREFLIGHT_REPORT_ONLY=true"}, "check", "storage", "--path=/no/such/folder")
	if got.exit != 0 || !strings.Contains(got.termination, `"outcome":"Fatal"`) || !strings.Contains(got.termination, `"exitCode":0`) {
		t.Errorf("%+v", got)
	}
}

func TestOneCheckTakesItsFlagsWithoutItsName(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := call(t, nil, "check", "tcp", "--addr="+listener.Addr().String(), "--require-listener")
	if got.exit != 0 || !strings.Contains(got.stderr, "listens") {
		t.Errorf("%+v", got)
	}
}

func TestAWarningIsTenIfAsked(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want int
	}{{nil, 0}, {[]string{"--detailed-exitcode"}, report.ExitWarning}, {[]string{"--fail-on=warning"}, report.ExitStop}} {
		args := append([]string{"run", "--checks=storage", "--storage-path=" + t.TempDir(), "--storage-slow=1ns"}, tc.args...)
		if got := call(t, nil, args...); got.exit != tc.want {
			t.Errorf("%v: %+v", tc.args, got)
		}
	}
}

// A pod that is deleted is no bad node: no verdict, and nothing of it lives on.
func TestASignalGivesNoVerdict(t *testing.T) {
	folder := t.TempDir()
	termination := filepath.Join(folder, "termination-log")
	script := filepath.Join(folder, "nvidia-smi")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+folder+"/began\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), built, "check", "gpu")
	cmd.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "PREFLIGHT_TERMINATION_LOG=" + termination}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(folder + "/began"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nvidia-smi was not called")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != report.ExitSignal {
		t.Errorf("the exit code is %d", code)
	}
	if _, err := os.Stat(termination); err == nil {
		t.Error("there is a verdict")
	}
}

func TestItInstallsItself(t *testing.T) {
	folder := t.TempDir()
	for range 2 { // an init container may run twice
		if got := call(t, nil, "install", "--dest="+folder); got.exit != 0 {
			t.Fatalf("%+v", got)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "preflight"), "version").Output()
	if err != nil || string(out) != "preflight version v1.2.3\n" {
		t.Errorf("%v: %s", err, out)
	}
	if got := call(t, nil, "install", "--dest="+filepath.Join(folder, "none")); got.exit != report.ExitStop {
		t.Errorf("%+v", got)
	}
}

func TestListSchemaAndPolicy(t *testing.T) {
	var all []listed
	if err := json.Unmarshal([]byte(call(t, nil, "list", "-o", "json").stdout), &all); err != nil || len(all) != len(checks.All()) {
		t.Errorf("%v: %+v", err, all)
	}
	text := call(t, nil, "list").stdout
	for _, spec := range checks.All() {
		if !strings.Contains(text, spec.Name) || !strings.Contains(text, spec.Proves) {
			t.Errorf("the list lacks %s:\n%s", spec.Name, text)
		}
	}
	if got := call(t, nil, "schema").stdout; got != string(report.Schema) {
		t.Error("the schema is another")
	}
	if got := call(t, nil, "policy", "-o", "job", "--container=check").stdout; !strings.Contains(got, "containerName: check") {
		t.Errorf("the policy is %s", got)
	}
	if got := call(t, nil, "policy").stdout; strings.Count(got, "---\n") != 2 {
		t.Errorf("all policies are %s", got)
	}
	if got := call(t, nil, "policy", "-o", "pod"); got.exit == 0 {
		t.Errorf("%+v", got)
	}
}
