package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// helperEnv turns this test binary into a stand-in for a component; its first
// argument says which.
const helperEnv = "TRAINJOB_CLUSTER_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		os.Exit(m.Run())
	}
	switch role := os.Args[1]; role {
	case "listen": // on the port given, like a server
		l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[2])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer l.Close()
		fmt.Println("listening")
		select {}
	case "fail":
		fmt.Println("no such flag: --frobnicate")
		os.Exit(2)
	case "parent": // starts a child that lives as long as we do, and names it
		p, err := startProcess(os.Args[0], []string{"listen", "0", os.Args[2]}, os.Environ(), os.Args[2], filepath.Join(os.Args[2], "child.log"), false)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.pid)
		select {}
	}
}

// newTestCluster is a cluster whose components are all this test binary.
func newTestCluster(t *testing.T) *Cluster {
	t.Helper()
	t.Setenv(helperEnv, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts, err := Options{Dir: t.TempDir()}.complete()
	if err != nil {
		t.Fatal(err)
	}
	c, err := create(opts, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(c.binDir, string(Etcd))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// testContext ends a little before the test binary would be killed for taking
// too long, so that clean-up still happens.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-20*time.Second))
		t.Cleanup(cancel)
	}
	return ctx
}
