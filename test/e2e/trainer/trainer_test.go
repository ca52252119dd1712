package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFindReadsTheVariablesOfEachFramework(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want world
		err  string
	}{
		"torch, the second of two nodes with two processes each": {
			env:  map[string]string{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "29500"},
			want: world{rank: 1, size: 2, meeting: "a:29500", local: 2},
		},
		"a worker of torchrun": {
			env:  map[string]string{"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500", "PET_NNODES": "2"},
			want: world{rank: 3, size: 4, meeting: "a:29500", local: 1},
		},
		"jax": {
			env:  map[string]string{"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0", "JAX_COORDINATOR_ADDRESS": "a:29500"},
			want: world{rank: 0, size: 2, meeting: "a:29500", local: 1},
		},
		"xgboost": {
			env:  map[string]string{"DMLC_NUM_WORKER": "2", "DMLC_TASK_ID": "1", "DMLC_TRACKER_URI": "a", "DMLC_TRACKER_PORT": "29500"},
			want: world{rank: 1, size: 2, meeting: "a:29500", local: 1},
		},
		"nothing":                 {err: "no variables of any framework"},
		"a rank beyond the size":  {env: map[string]string{"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}, err: "JAX_PROCESS_ID=2"},
		"an address without port": {env: map[string]string{"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1", "JAX_COORDINATOR_ADDRESS": "a"}, err: "missing port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := find(func(key string) string { return test.env[key] })
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want it to speak of %q", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

// together trains with so many processes, played by goroutines, and returns their errors.
func together(t *testing.T, o options, size int) []error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	meeting := listener.Addr().String()
	listener.Close()
	o.patience = time.Minute
	var group sync.WaitGroup
	failures := make([]error, size)
	for rank := range size {
		group.Go(func() { failures[rank] = train(o, world{rank: rank, size: size, meeting: meeting, local: 1}) })
	}
	group.Wait()
	return failures
}

func journal(t *testing.T, o options) []string {
	t.Helper()
	data, err := os.ReadFile(o.file("journal"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func TestACrashOfOneEndsAllAndTheNextRunGoesOnFromTheCheckpoint(t *testing.T) {
	o := options{steps: 12, every: 5, checkpoints: filepath.Join(t.TempDir(), "job"), fault: fault{kind: "crash", rank: 2, step: 8, once: true}}
	failures := together(t, o, 3)
	var code exit
	if !errors.As(failures[2], &code) || code != exitCode {
		t.Errorf("rank 2 ended with %v, want exit code %d", failures[2], exitCode)
	}
	if failures[0] == nil || failures[1] == nil {
		t.Errorf("ranks 0 and 1 ended with %v and %v, though a peer was lost", failures[0], failures[1])
	}
	if err := errors.Join(together(t, o, 2)...); err != nil {
		t.Fatalf("the second run: %v", err)
	}
	want := []string{"3 processes start at step 0", "2 processes start at step 5", "done at step 12"}
	if diff := cmp.Diff(want, journal(t, o)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestAWrongNumberIsNoticedByAll(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = receive(theirs)
		_ = send(theirs, 0)
	}()
	err := (&group{peers: []net.Conn{ours}}).step(world{rank: 1, size: 2}, 3)
	if err == nil || !strings.Contains(err.Error(), "the sum is 0, want 1006") {
		t.Errorf("error %v", err)
	}
}

func TestFilesOfInitializersAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "set")
	t.Setenv("STORAGE_URI", "hf://a")
	if err := run([]string{"-prepare", file}); err != nil {
		t.Fatal(err)
	}
	for needs, want := range map[string]bool{file + "=hf://a": true, file + "=hf://b": false, file + "-not=hf://a": false} {
		if err := (options{needs: needs}).check(); (err == nil) != want {
			t.Errorf("%s: %v", needs, err)
		}
	}
}

func TestFaultsAreReadStrictly(t *testing.T) {
	for text, want := range map[string]fault{
		"crash:1:5:once": {kind: "crash", rank: 1, step: 5, once: true}, "slow:0:1": {kind: "slow", step: 1},
		"crash": {}, "crash:1:5:twice": {}, "fly:1:5": {}, "crash:one:5": {},
	} {
		var f fault
		if err := f.Set(text); (err == nil) != (want.kind != "") || err == nil && f != want {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
}
