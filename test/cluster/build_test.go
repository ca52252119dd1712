package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCacheKeyFollowsWhateverDecidesTheBinaries(t *testing.T) {
	parts := []string{"go1.26.8", "linux", "amd64", "-s"}
	base := fakeSource(t)
	want, err := cacheKey(base, parts...)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		file  string
		parts []string
		same  bool
	}{
		"the same pins and tools give the same folder": {"", parts, true},
		"a file that is no pin does not matter":        {"kubernetes/README", parts, true},
		"a changed go.mod gives another folder":        {"kubernetes/go.mod", parts, false},
		"a changed go.sum gives another folder":        {"kwok/go.sum", parts, false},
		"changed code of ours gives another folder":    {"coredns/main.go", parts, false},
		"another toolchain gives another folder":       {"", []string{"go1.27.0", "linux", "amd64", "-s"}, false},
		"another platform gives another folder":        {"", []string{"go1.26.8", "linux", "arm64", "-s"}, false},
		"other flags give another folder":              {"", []string{"go1.26.8", "linux", "amd64", "-w"}, false},
		"parts cannot flow into each other":            {"", []string{"go1.26.8", "linuxa", "md64", "-s"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fakeSource(t)
			if test.file != "" {
				write(t, filepath.Join(root, nestedModules, test.file), "changed")
			}
			got, err := cacheKey(root, test.parts...)
			if err != nil {
				t.Fatal(err)
			}
			if (got == want) != test.same {
				t.Errorf("key %s against %s, want same: %t", got, want, test.same)
			}
		})
	}
}

func TestVersionFlagRepeatsThePin(t *testing.T) {
	root, err := findSource("")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, nestedModules, "kubernetes", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "k8s.io/kubernetes "+kubernetesVersion+"\n") &&
		!strings.Contains(string(data), "k8s.io/kubernetes "+kubernetesVersion+" ") {
		t.Errorf("hack/cluster/kubernetes/go.mod does not pin %s: change kubernetesVersion and ldflags", kubernetesVersion)
	}
}

func TestBuildersAtTheSameTimeBuildOnce(t *testing.T) {
	root, calls := fakeSource(t), fakeGo(t, `printf binary > "$out"`)
	t.Setenv(CacheEnv, t.TempDir())
	var group sync.WaitGroup
	failures := make([]error, 4)
	for i := range failures {
		group.Go(func() { _, failures[i] = Build(testContext(t), io.Discard, root, "etcd", "kwok") })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"etcd", "kwok"}, calls()); diff != "" {
		t.Errorf("built binaries (-want +got):\n%s", diff)
	}
}

func TestBuildTellsItsProgress(t *testing.T) {
	root := fakeSource(t)
	fakeGo(t, `printf binary > "$out"`)
	t.Setenv(CacheEnv, t.TempDir())
	var out bytes.Buffer
	dir, err := Build(testContext(t), &out, root, "etcd", "kwok")
	if err != nil {
		t.Fatal(err)
	}
	want := `cluster: building etcd (1 of 2); the very first time takes about half a minute
cluster: built etcd (1 of 2) in 0s
cluster: building kwok (2 of 2); the very first time takes about a minute
cluster: built kwok (2 of 2) in 0s
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	out.Reset()
	again, err := Build(testContext(t), &out, root, "etcd", "kwok")
	if err != nil || again != dir || out.Len() != 0 {
		t.Errorf("second build: %s, %v, says %q; want %s in silence", again, err, out.String(), dir)
	}
}

func TestFailedBuildLeavesNoBinaryAndShowsWhy(t *testing.T) {
	root := fakeSource(t)
	fakeGo(t, `printf half > "$out"; echo 'undefined: x' >&2; exit 1`)
	t.Setenv(CacheEnv, t.TempDir())
	dir, err := Build(testContext(t), io.Discard, root, "etcd")
	if err == nil || !strings.Contains(err.Error(), "build etcd") || !strings.Contains(err.Error(), "undefined: x") {
		t.Errorf("error %v names neither what failed nor why", err)
	}
	for _, name := range []string{"etcd", "etcd.partial"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want it not to be there", name, err)
		}
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(testContext(t), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan bool, 1), make(chan error)
	go func() {
		second, err := lockFile(testContext(t), path, func() { waiting <- true })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waiting
	select {
	case err := <-got:
		t.Fatalf("the second got the lock while it was held: %v", err)
	default:
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	held, err := lockFile(testContext(t), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held()
	if _, err := lockFile(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context ended", err)
	}
}

// fakeSource is a source tree with the pins and nothing else.
func fakeSource(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, module := range pinned {
		for _, file := range append([]string{"go.mod", "go.sum"}, sources[module]...) {
			write(t, filepath.Join(root, nestedModules, module, file), module+file)
		}
	}
	return root
}

// fakeGo puts a go command on PATH that does what a piece of shell says with
// $out, and returns a function that lists what it was asked to build.
func fakeGo(t *testing.T, action string) func() []string {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\nout=$5\nbasename \"$out\" .partial >> %q\n%s\n", log, action)
	write(t, filepath.Join(dir, "go"), script)
	if err := os.Chmod(filepath.Join(dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := writeFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
