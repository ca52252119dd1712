package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestComponentThatLosesItsPortGetsAnother(t *testing.T) {
	c := newTestCluster(t)
	rival, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Close()
	attempts := 0
	def := definition{
		ports: []string{etcdPort},
		args: func(c *Cluster) []string {
			if attempts++; attempts == 1 {
				// As if the rival had bound the port after we looked.
				c.ports[etcdPort] = rival.Addr().(*net.TCPAddr).Port
			}
			return []string{"listen", strconv.Itoa(c.port(etcdPort)), c.dir}
		},
		ready: saysItListens,
	}
	if err := c.startDefined(testContext(t), Etcd, def); err != nil {
		t.Fatal(err)
	}
	if attempts != 2 || c.port(etcdPort) == rival.Addr().(*net.TCPAddr).Port {
		t.Errorf("%d attempts, port %d; want a second attempt with another port", attempts, c.port(etcdPort))
	}
}

// saysItListens is the readiness of the stand-in, which has no identity to show.
func saysItListens(_ context.Context, c *Cluster) error {
	if !strings.Contains(tail(c.LogFile(Etcd), 0), "listening") {
		return errors.New("nobody listens yet")
	}
	return nil
}

func TestComponentThatEndsShowsItsLog(t *testing.T) {
	c := newTestCluster(t)
	err := c.startDefined(testContext(t), Etcd, definition{
		args:  func(*Cluster) []string { return []string{"fail"} },
		ready: func(context.Context, *Cluster) error { return errors.New("no answer") },
	})
	if err == nil || !strings.Contains(err.Error(), "no such flag: --frobnicate") {
		t.Errorf("error %v does not show the log", err)
	}
	if len(c.Pids()) != 0 {
		t.Errorf("processes %v are still recorded", c.Pids())
	}
}

func TestComponentThatNeverGetsReadyIsStopped(t *testing.T) {
	c := newTestCluster(t)
	ctx, cancel := context.WithTimeoutCause(testContext(t), 300*time.Millisecond, errors.New("patience is over"))
	defer cancel()
	pid := 0
	err := c.startDefined(ctx, Etcd, definition{
		args: func(c *Cluster) []string { return []string{"listen", "0", c.dir} },
		ready: func(context.Context, *Cluster) error {
			pid = c.Pids()[Etcd]
			return errors.New("the last answer")
		},
	})
	for _, part := range []string{"patience is over", "the last answer"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
	if runs(pid, filepath.Join(c.binDir, string(Etcd)), c.dir) {
		t.Errorf("pid %d still runs", pid)
	}
}

func TestProcessesEndWithTheirStarter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties the life of a child to its parent's")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	parent := exec.Command(self, "parent", dir)
	parent.Env = append(os.Environ(), helperEnv+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the helper failed: %s", line)
	}
	if !runs(child, self, dir) {
		t.Fatalf("child %d does not run", child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed, which is an error by itself
	ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
	defer cancel()
	if err := poll(ctx, 10*time.Millisecond, func(context.Context) (bool, error) { return !runs(child, self, dir), nil }); err != nil {
		t.Errorf("child %d outlives its killed parent", child)
	}
}

func TestRemoveLeavesAProcessAloneThatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	// The pid of a component was given to another program, here to this test.
	err := saveState(filepath.Join(dir, stateFile), state{
		Processes: map[Component]record{Etcd: {PID: os.Getpid(), Binary: "/nowhere/etcd"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Load: %v, want ErrNotRunning", err)
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestFreePortsAreDifferentAndCanBeBound(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || port < firstPort || port > lastPort {
			t.Errorf("port %d is out of range or handed out twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}
