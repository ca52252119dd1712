package checks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// The test binary is its own storage probe.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == ProbeCommand {
		if err := RunProbe(os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// made is a check with flags as a user gives them.
func made(t *testing.T, spec Spec, flags ...string) Check {
	t.Helper()
	set := pflag.NewFlagSet(spec.Name, pflag.ContinueOnError)
	check := spec.New(set)
	if err := set.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return check
}

// here is an environment with an empty root and a PATH with the programs given, by name.
func here(t *testing.T, programs map[string]string, variables ...string) Env {
	t.Helper()
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin:/usr/sbin:/sbin")
	return Env{
		Environ: append([]string{"PATH=" + os.Getenv("PATH")}, variables...),
		Root:    root, Self: []string{os.Args[0]}, Note: t.Logf,
	}
}

func put(t *testing.T, env Env, path, content string) {
	t.Helper()
	path = env.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// within runs a check with a limit.
func within(t *testing.T, limit time.Duration, check Check, env Env) report.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	finding := check.Run(ctx, env)
	if took := time.Since(start); took > limit+10*time.Second {
		t.Errorf("it took %s, long after its limit of %s", took, limit)
	}
	return finding
}

func expect(t *testing.T, got report.Finding, status report.Status, reason string) {
	t.Helper()
	if got.Status != status || got.Reason != reason {
		t.Errorf("it is %s %s: %s; want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	if got.Message == "" || (got.Status == report.StatusFail || got.Status == report.StatusWarn || got.Status == report.StatusError) && got.Hint == "" {
		t.Errorf("a message or a hint is missing: %+v", got)
	}
}

// smi is a program that says what a file in testdata holds.
func smi(t *testing.T, name string) string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "nvidia-smi", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, file := range archive.Files {
		if err := os.WriteFile(filepath.Join(folder, file.Name), file.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return `case "$1" in
-L) call=list ;;
--query-gpu=*) call=query-gpu ;;
--query-remapped-rows=*) call=remapped-rows ;;
*) call=header ;;
esac
cd '` + folder + `' || exit 99
cat "$call" || exit 98
if [ -f "$call.exit" ]; then exit "$(cat "$call.exit")"; fi
`
}
