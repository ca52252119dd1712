package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// train meets the others and does the steps that are left.
func train(o options, w world) error {
	start, err := o.load(w)
	if err != nil {
		return err
	}
	g, err := join(w, o.patience, start)
	if err != nil {
		return fmt.Errorf("rank %d of %d: %w", w.rank, w.size, err)
	}
	defer g.close()
	if w.rank == 0 {
		if err := o.note("%d processes start at step %d", w.size, g.start); err != nil {
			return err
		}
	}
	fmt.Printf("rank %d of %d met the others at %s, starts at step %d\n", w.rank, w.size, w.meeting, g.start)
	for step := g.start + 1; step <= o.steps; step++ {
		if err := o.fault.strike(o, w, step); err != nil {
			return err
		}
		begin := time.Now()
		if err := g.step(w, step); err != nil {
			return fmt.Errorf("rank %d of %d, step %d: %w", w.rank, w.size, step, err)
		}
		if w.rank == 0 && o.checkpoints != "" && (step%o.every == 0 || step == o.steps) {
			if err := write(o.file("checkpoint"), strconv.Itoa(step)); err != nil {
				return err
			}
		}
		time.Sleep(o.pace - time.Since(begin))
	}
	fmt.Printf("rank %d of %d is done after step %d\n", w.rank, w.size, o.steps)
	if w.rank == 0 {
		return o.note("done at step %d", o.steps)
	}
	return nil
}

func (o options) file(name string) string { return filepath.Join(o.checkpoints, name) }

// load is the step of the last checkpoint, which the first process alone reads.
func (o options) load(w world) (int, error) {
	if o.checkpoints == "" || w.rank != 0 {
		return 0, nil
	}
	data, err := os.ReadFile(o.file("checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// note adds a line to the journal beside the checkpoints, which outlives the pods.
func (o options) note(format string, args ...any) error {
	if o.checkpoints == "" {
		return nil
	}
	if err := os.MkdirAll(o.checkpoints, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(o.file("journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, format+"\n", args...)
	return errors.Join(err, f.Close())
}

// group is a process's connections: to all others for the first, to the first for others.
type group struct {
	peers []net.Conn
	start int // the step to start after, as the first process has read it
}

func (g *group) close() {
	for _, peer := range g.peers {
		peer.Close()
	}
}

// join meets the others: the first process waits for all, the others look for it. Names
// may not be known yet and ports not open, so they try again for as long as they may.
func join(w world, patience time.Duration, start int) (*group, error) {
	deadline := time.Now().Add(patience)
	if w.rank == 0 {
		return gather(w, deadline, start)
	}
	for {
		peer, err := net.DialTimeout("tcp", w.meeting, time.Second)
		if err == nil {
			g := &group{peers: []net.Conn{peer}}
			if err = g.introduce(w, deadline); err == nil {
				return g, nil
			}
			g.close()
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the first process cannot be reached: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// introduce tells the first process who this is, and learns where to start.
func (g *group) introduce(w world, deadline time.Time) error {
	peer := g.peers[0]
	if err := errors.Join(peer.SetDeadline(deadline), send(peer, uint64(w.rank))); err != nil {
		return err
	}
	start, err := receive(peer)
	g.start = int(start)
	return errors.Join(err, peer.SetDeadline(time.Time{}))
}

// gather waits for a process of every other rank.
func gather(w world, deadline time.Time, start int) (*group, error) {
	g := &group{start: start}
	if w.size == 1 {
		return g, nil
	}
	_, port, err := net.SplitHostPort(w.meeting)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if err := listener.(*net.TCPListener).SetDeadline(deadline); err != nil {
		return nil, err
	}
	here := map[uint64]net.Conn{}
	for len(here) < w.size-1 {
		peer, err := listener.Accept()
		if err != nil {
			return nil, fmt.Errorf("%d of %d other processes came: %w", len(here), w.size-1, err)
		}
		rank, err := receive(peer)
		if err != nil {
			peer.Close() // somebody who looked whether the port is open
			continue
		}
		if rank == 0 || rank >= uint64(w.size) {
			return nil, fmt.Errorf("a process says its rank is %d, of %d", rank, w.size)
		}
		if old := here[rank]; old != nil {
			old.Close() // it was started anew
		}
		here[rank] = peer
	}
	for _, peer := range here {
		if err := send(peer, uint64(start)); err != nil {
			return nil, err
		}
		g.peers = append(g.peers, peer)
	}
	return g, nil
}

// step contributes this process's number and checks the sum of all. The numbers of two
// ranks and of two steps are never the same.
func (g *group) step(w world, step int) error {
	number := func(rank int) float64 { return float64(step) + float64(rank)*1000 }
	var want float64
	for rank := range w.size {
		want += number(rank)
	}
	sum := number(w.rank)
	if w.rank == 0 {
		for _, peer := range g.peers {
			bits, err := receive(peer)
			if err != nil {
				return err
			}
			sum += math.Float64frombits(bits)
		}
		for _, peer := range g.peers {
			if err := send(peer, math.Float64bits(sum)); err != nil {
				return err
			}
		}
	} else {
		if err := send(g.peers[0], math.Float64bits(sum)); err != nil {
			return err
		}
		bits, err := receive(g.peers[0])
		if err != nil {
			return err
		}
		sum = math.Float64frombits(bits)
	}
	if sum != want {
		return fmt.Errorf("the sum is %v, want %v", sum, want)
	}
	return nil
}

func send(to net.Conn, value uint64) error { return binary.Write(to, binary.BigEndian, value) }

func receive(from net.Conn) (value uint64, err error) {
	err = binary.Read(from, binary.BigEndian, &value)
	return value, err
}

// fault is something that one process does wrong at a step.
type fault struct {
	kind       string
	rank, step int
	once       bool
}

func (f *fault) String() string { return f.kind }

// Set reads kind:rank:step[:once].
func (f *fault) Set(text string) error {
	parts := strings.Split(text, ":")
	if len(parts) < 3 || len(parts) > 4 || len(parts) == 4 && parts[3] != "once" {
		return fmt.Errorf("%q is not kind:rank:step[:once]", text)
	}
	var errs [2]error
	f.kind, f.once = parts[0], len(parts) == 4
	f.rank, errs[0] = strconv.Atoi(parts[1])
	f.step, errs[1] = strconv.Atoi(parts[2])
	switch f.kind {
	case "crash", "hang", "slow", "stubborn":
	default:
		return fmt.Errorf("there is no fault %q", f.kind)
	}
	return errors.Join(errs[:]...)
}

// strike does it, if it is this process's turn.
func (f fault) strike(o options, w world, step int) error {
	if f.kind == "" || f.rank != w.rank || step < f.step || step > f.step && f.kind != "slow" {
		return nil
	}
	if f.once {
		f, err := os.OpenFile(o.file("struck"), os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	switch f.kind {
	case "crash":
		return fmt.Errorf("rank %d crashes at step %d: %w", w.rank, step, exit(exitCode))
	case "hang":
		fmt.Printf("rank %d hangs at step %d\n", w.rank, step)
		select {}
	case "slow":
		time.Sleep(time.Second)
	}
	return nil
}
