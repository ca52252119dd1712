package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

func TestRankZeroIsReached(t *testing.T) {
	silent, closed := silentListener(t), closedAddress(t)
	cases := map[string]struct {
		flags  []string
		status report.Status
		reason string
	}{
		"somebody listens":             {flags: []string{"--tcp-addr=" + silent}, status: report.StatusPass, reason: "Passed"},
		"nobody listens yet":           {flags: []string{"--tcp-addr=" + closed}, status: report.StatusPass, reason: "Passed"},
		"nobody listens and should":    {flags: []string{"--tcp-addr=" + closed, "--tcp-require-listener"}, status: report.StatusFail, reason: "TCPRefused"},
		"nobody can be reached":        {flags: []string{"--tcp-addr=" + deafAddress(t)}, status: report.StatusFail, reason: "TCPUnreachable"},
		"nothing is known":             {status: report.StatusSkipped, reason: "NoAddress"},
		"a barrier without the ranks":  {flags: []string{"--tcp-listen", "--tcp-addr=" + closed}, status: report.StatusError, reason: "RankUnknown"},
		"an address that is no number": {flags: []string{"--tcp-addr=127.0.0.1:nothing"}, status: report.StatusFail, reason: "TCPUnreachable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := within(t, time.Second, made(t, tcpSpec, tc.flags...), here(t, nil))
			expect(t, got, tc.status, tc.reason)
		})
	}
}

// job is the environment of every rank of a job whose rank 0 is on loopback.
func job(t *testing.T, nodes int) []Env {
	t.Helper()
	_, port, err := net.SplitHostPort(closedAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([]Env, nodes)
	for rank := range ranks {
		ranks[rank] = here(t, nil, "PET_MASTER_ADDR=127.0.0.1", "PET_MASTER_PORT="+port,
			fmt.Sprintf("PET_NODE_RANK=%d", rank), fmt.Sprintf("PET_NNODES=%d", nodes))
	}
	return ranks
}

// together runs the check in some ranks at once.
func together(t *testing.T, ranks []Env, which []int, flags ...string) map[int]report.Finding {
	t.Helper()
	var mu sync.Mutex
	found := map[int]report.Finding{}
	var all sync.WaitGroup
	for _, rank := range which {
		check := made(t, tcpSpec, append([]string{"--tcp-listen"}, flags...)...)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			finding := check.Run(ctx, ranks[rank])
			mu.Lock()
			defer mu.Unlock()
			found[rank] = finding
		})
	}
	all.Wait()
	return found
}

func TestAtTheBarrierAllRanksMeet(t *testing.T) {
	ranks := job(t, 4)
	for round := range 3 { // the port is free again at once
		for rank, finding := range together(t, ranks, []int{3, 2, 1, 0}) {
			if finding.Status != report.StatusPass || !strings.Contains(finding.Message, "all 4 ranks") {
				t.Errorf("round %d, rank %d: %+v", round, rank, finding)
			}
		}
	}
}

func TestAtTheBarrierAllHearWhoIsMissing(t *testing.T) {
	found := together(t, job(t, 4), []int{0, 1, 3}, "--tcp-barrier-timeout=2s")
	for _, rank := range []int{0, 1, 3} {
		finding := found[rank]
		expect(t, finding, report.StatusFail, "PeersMissing")
		if finding.Outcome != report.Retryable || finding.Scope != report.ScopePeer || !strings.Contains(finding.Message, "of 4 ranks, 2 did not come") {
			t.Errorf("rank %d: %+v", rank, finding)
		}
	}
}

func TestWithoutRankZeroNobodyMeets(t *testing.T) {
	for rank, finding := range together(t, job(t, 3), []int{1, 2}, "--tcp-barrier-timeout=1s") {
		if finding.Reason != "BarrierFailed" || finding.Outcome != report.Retryable {
			t.Errorf("rank %d: %+v", rank, finding)
		}
	}
}

// A rank that has left does not count, nor do strangers.
func TestStrangersAndLeaversDoNotCompleteTheBarrier(t *testing.T) {
	ranks := job(t, 3)
	left := make(chan struct{}, 1)
	ranks[0].Note = func(format string, args ...any) {
		t.Logf(format, args...)
		if strings.Contains(format, "has left") {
			left <- struct{}{}
		}
	}
	first := make(chan report.Finding)
	check := made(t, tcpSpec, "--tcp-listen", "--tcp-barrier-timeout=4s")
	go func() { first <- within(t, 30*time.Second, check, ranks[0]) }()
	address := "127.0.0.1:" + ranks[0].Get("PET_MASTER_PORT")
	for _, line := range []string{"GET / HTTP/1.1\n", "preflight rank 7 of 3\n", "preflight rank 1 of 9\n", strings.Repeat("x", 10000), "preflight rank 2 of 3\n"} {
		visit(t, address, line)
	}
	select {
	case <-left:
	case <-time.After(3 * time.Second):
		t.Error("that rank 2 has left was not seen")
	}
	second := together(t, ranks, []int{1}, "--tcp-barrier-timeout=10s")[1]
	for rank, finding := range map[int]report.Finding{0: <-first, 1: second} {
		if finding.Reason != "PeersMissing" || !strings.Contains(finding.Message, "of 3 ranks, 2 did not come") {
			t.Errorf("rank %d: %+v", rank, finding)
		}
	}
}

// visit connects as soon as somebody listens, says a line and leaves.
func visit(t *testing.T, address, line string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_, _ = conn.Write([]byte(line))
			conn.Close()
			return
		}
	}
	t.Error("nobody listens at " + address)
}

// deafAddress is one that does not answer at all: a listener that has as many connections
// as it may have waiting, and takes none.
func deafAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 10 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system takes connections without limit: an address that does not answer cannot be made")
	return ""
}
