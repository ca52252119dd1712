package checks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// barrier is where the ranks of a job wait for each other. Rank 0 listens; the others
// connect and say who they are. When all are there, or its time is over, rank 0 tells
// every one of them, so that all find the same. A missing rank is no verdict on any
// node: it may still wait for one.
type barrier struct {
	place
	address string
}

const (
	hello     = "preflight rank %d of %d\n"
	complete  = "complete"
	allHere   = complete + "\n"
	someLack  = "missing %s\n"
	longestIn = 4096 // bytes of a line
)

const hintPeers = "see why the pods of these ranks have not started: no node for them, an image that is missing, or a preflight of their own that failed"

// meet waits until all ranks are there or ctx ends.
func meet(ctx context.Context, b barrier, env Env) report.Finding {
	if b.nodes <= 1 {
		return pass("there is one rank alone")
	}
	lacking, err := b.wait(ctx, env)
	if err != nil {
		return fail(report.Retryable, report.ScopePeer, "BarrierFailed", err.Error(), hintPeers)
	}
	if lacking != "" {
		return fail(report.Retryable, report.ScopePeer, "PeersMissing", fmt.Sprintf("of %d ranks, %s did not come in time", b.nodes, lacking), hintPeers)
	}
	return pass(fmt.Sprintf("all %d ranks are there", b.nodes))
}

func (b barrier) wait(ctx context.Context, env Env) (string, error) {
	if b.rank == 0 {
		return b.host(ctx, env)
	}
	return b.join(ctx)
}

// visitor is a rank that has come.
type visitor struct {
	rank int
	conn net.Conn
	gone chan struct{} // closed when it has hung up
}

// host is rank 0's part. It returns the ranks that did not come.
func (b barrier) host(ctx context.Context, env Env) (string, error) {
	_, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", b.address, err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+port)
	if err != nil {
		return "", err
	}
	defer listener.Close()
	came, left, done := make(chan *visitor), make(chan *visitor), make(chan struct{})
	defer close(done)
	go b.accept(listener, came, left, done)
	here := map[int]*visitor{}
	for len(here) < b.nodes-1 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case v := <-came:
			here[v.rank] = v
			env.Note("barrier: rank %d is here, %d of %d", v.rank, len(here)+1, b.nodes)
		case v := <-left:
			if here[v.rank] == v {
				delete(here, v.rank)
				env.Note("barrier: rank %d has left", v.rank)
			}
		}
	}
	lacking := b.lacking(here)
	verdict := allHere
	if lacking != "" {
		verdict = fmt.Sprintf(someLack, lacking)
	}
	var told sync.WaitGroup
	for _, v := range here {
		told.Go(func() { v.tell(verdict) })
	}
	told.Wait()
	return lacking, nil
}

// accept hands over every rank that says who it is. Whatever else connects is let go.
func (b barrier) accept(listener net.Listener, came, left chan<- *visitor, done <-chan struct{}) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			v := &visitor{conn: conn, gone: make(chan struct{})}
			if !v.introduced(b.nodes) {
				return
			}
			select {
			case came <- v:
			case <-done:
				return
			}
			// Nothing more is sent: the end of this is the end of the connection.
			_, _ = conn.Read(make([]byte, 1))
			close(v.gone)
			select {
			case left <- v:
			case <-done:
			}
		}()
	}
}

func (v *visitor) introduced(nodes int) bool {
	_ = v.conn.SetReadDeadline(time.Now().Add(tcpDialTime))
	line, err := readLine(v.conn)
	if err != nil {
		return false
	}
	_ = v.conn.SetReadDeadline(time.Time{})
	var theirs int
	_, err = fmt.Sscanf(line+"\n", hello, &v.rank, &theirs)
	return err == nil && theirs == nodes && v.rank > 0 && v.rank < nodes
}

// tell gives a rank the verdict and lets it close first, so that the port is free for the
// training at once.
func (v *visitor) tell(verdict string) {
	_ = v.conn.SetDeadline(time.Now().Add(tcpDialTime))
	if _, err := io.WriteString(v.conn, verdict); err != nil {
		return
	}
	select {
	case <-v.gone:
	case <-time.After(tcpDialTime):
	}
}

// lacking lists at most ten ranks that are not here.
func (b barrier) lacking(here map[int]*visitor) string {
	var ranks []string
	for rank := 1; rank < b.nodes; rank++ {
		if here[rank] == nil {
			ranks = append(ranks, fmt.Sprint(rank))
		}
	}
	if len(ranks) > 10 {
		ranks = append(ranks[:10], fmt.Sprintf("and %d more", len(ranks)-10))
	}
	return strings.Join(slices.Clip(ranks), ", ")
}

// join is the part of the other ranks. They try again as long as nobody listens.
func (b barrier) join(ctx context.Context) (string, error) {
	for {
		verdict, err := b.visit(ctx)
		if err == nil {
			if verdict == complete {
				return "", nil
			}
			if ranks, ok := strings.CutPrefix(verdict, "missing "); ok {
				return ranks, nil
			}
			return "", fmt.Errorf("%s says %q: it is no barrier", b.address, verdict)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("rank 0 at %s: %w", b.address, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// visit connects once and waits for the verdict.
func (b barrier) visit(ctx context.Context) (string, error) {
	dialer := net.Dialer{Timeout: tcpDialTime}
	conn, err := dialer.DialContext(ctx, "tcp", b.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// Rank 0 may need a moment more than this rank's own time to say who is missing.
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end.Add(tcpDialTime)); err != nil {
			return "", err
		}
	}
	if _, err := fmt.Fprintf(conn, hello, b.rank, b.nodes); err != nil {
		return "", err
	}
	line, err := readLine(conn)
	if errors.Is(err, io.EOF) {
		return "", errors.New("rank 0 went away")
	}
	return line, err
}

func readLine(conn net.Conn) (string, error) {
	line, err := bufio.NewReaderSize(io.LimitReader(conn, longestIn), longestIn).ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}
