package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/trainjob/controller/test/cluster"
)

// cpu is the processor time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	used, err := cpuTime(p.cmd.Process.Pid)
	if err != nil {
		err = errors.Join(p.alive(), err)
	}
	return used, err
}

// apiServerCPU is the processor time that the API server has used so far.
func (a *arena) apiServerCPU() (time.Duration, error) {
	return cpuTime(a.cluster.Pids()[cluster.APIServer])
}

// usage is the processor time that everyone has used so far in whom a subject's work shows.
type usage struct {
	subject, apiServer, etcd, bench time.Duration
}

// used is the usage up to now. A subject that is no process of its own is the benchmark.
func (a *arena) used(s *subject) (u usage, err error) {
	var errs [4]error
	if s.process != nil {
		u.subject, errs[0] = s.process.cpu()
	}
	u.apiServer, errs[1] = a.apiServerCPU()
	u.etcd, errs[2] = cpuTime(a.cluster.Pids()[cluster.Etcd])
	u.bench, errs[3] = cpuTime(os.Getpid())
	return u, errors.Join(errs[:]...)
}

// cpu adds what was used for n TrainJobs between two moments.
func (p *page) cpu(before, after usage, n int) {
	for _, of := range []struct {
		metric       string
		after, begin time.Duration
	}{
		{"CPU per 1,000 TrainJobs", after.subject, before.subject},
		{"CPU of the API server per 1,000 TrainJobs", after.apiServer, before.apiServer},
		{"CPU of etcd per 1,000 TrainJobs", after.etcd, before.etcd},
		{"CPU of the benchmark per 1,000 TrainJobs", after.bench, before.bench},
	} {
		if of.after > of.begin {
			p.add(of.metric, "s", (of.after-of.begin).Seconds()/float64(n)*1000)
		}
	}
}

// cpuTime of a process so far, user and system. Linux only.
func cpuTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The name in parentheses may hold spaces; the fields after it do not.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("read CPU time: %q", raw)
	}
	const ticks = 100 // per second, on every Linux platform Go runs on
	return time.Duration(user+system) * time.Second / ticks, nil
}

// memory is a number of bytes of /proc/PID/status: VmRSS is what is resident, VmHWM the
// most that ever was.
func (p *process) memory(field string) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", errors.Join(p.alive(), err))
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in %q", field, raw)
}

// metric sums the samples of a metric whose line holds all the given parts, as in
// `name="jobset"`. Controllers without metrics have none.
func (p *process) metric(ctx context.Context, name string, parts ...string) (float64, bool) {
	body, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, false
	}
	return sample(body, name, parts...)
}

// sample sums the samples of a metric in what was read from /metrics.
func sample(body, name string, parts ...string) (sum float64, found bool) {
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<20)
next:
	for lines.Scan() {
		line, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || line == "" || (line[0] != ' ' && line[0] != '{') {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
			sum, found = sum+value, true
		}
	}
	return sum, found
}

// liveHeap is what the last garbage collection has left, after one that is asked for if
// the controller serves profiles.
func (p *process) liveHeap(ctx context.Context) (float64, bool) {
	for range 2 { // what is freed by finalizers goes with the second
		_, _ = p.get(ctx, "/debug/pprof/heap?gc=1") // not there: the last one has to do
	}
	return p.metric(ctx, "go_gc_heap_live_bytes")
}
