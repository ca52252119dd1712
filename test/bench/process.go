package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

// Who is measured.
const (
	limitName  = "limit"
	beforeName = "before"
	ourName    = "ours"
	peerName   = "peer"
)

// command starts a controller. In its line, for the shell, {kubeconfig} is the path of a
// kubeconfig and {address} a free host:port for health, metrics and profiles.
type command struct {
	name, line string
	// snapshots: it takes snapshots as this project's contract says.
	snapshots bool
}

// user is its name in the audit log.
func (c command) user() string { return "bench-" + c.name }

// ourCommands builds the controller, unless a binary is given. Before it comes an
// earlier build of it, if there is one.
func ourCommands(ctx context.Context, o *options, dir string) ([]command, error) {
	binary := o.controller
	if binary == "" {
		var err error
		if binary, err = harness.Build(ctx, harness.SourceDir(), dir, false); err != nil {
			return nil, err
		}
	}
	ours, err := binaryCommand(ctx, ourName, binary, o.flags)
	if err != nil || o.before == "" {
		return []command{ours}, err
	}
	before, err := binaryCommand(ctx, beforeName, o.before, "")
	return []command{before, ours}, err
}

// binaryCommand starts a build of the controller, with the flags that it has.
func binaryCommand(ctx context.Context, name, binary, flags string) (command, error) {
	line := binary + " --kubeconfig {kubeconfig} --bind-address {address}"
	help, err := exec.CommandContext(ctx, binary, "--help").CombinedOutput()
	if err != nil {
		return command{}, fmt.Errorf("%s --help: %w", binary, err)
	}
	known := strings.Fields(string(help))
	for flag, value := range map[string]string{
		"--profiling": "true",  // to have the heap collected before it is measured
		"--webhook":   "false", // admission is not what is measured
	} {
		if slices.ContainsFunc(known, func(word string) bool { name, _, _ := strings.Cut(word, "["); return name == flag }) {
			line += " " + flag + "=" + value
		}
	}
	return command{name: name, line: line + " " + flags, snapshots: true}, nil
}

// process is a controller that runs.
type process struct {
	command
	arena   *arena
	address string
	log     string
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error
	started time.Time
}

// start starts a controller without waiting for anything.
func (a *arena) start(c command) (*process, error) {
	kubeconfig, err := a.kubeconfig(c.user())
	if err != nil {
		return nil, err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(a.bench.dir, c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	line := strings.NewReplacer("{kubeconfig}", kubeconfig, "{address}", address).Replace(c.line)
	p := &process{command: c, arena: a, address: address, log: log.Name(), exited: make(chan struct{}), started: time.Now()}
	p.cmd = exec.Command("sh", "-c", "exec "+line)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := cluster.StartChild(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if a.bench.options.profiles != "" {
		go p.profileCPU()
	}
	return p, nil
}

// profiled measures, and keeps a profile of the API server's first half minute, if
// profiles are asked for.
func (a *arena) profiled(ctx context.Context, name string, measure func(*arena) error) error {
	if a.bench.options.profiles == "" {
		return measure(a)
	}
	var profiling sync.WaitGroup
	profiling.Go(func() {
		data, err := a.core.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "30").DoRaw(ctx)
		if err != nil {
			a.bench.say("no profile of the API server: %v", err)
			return
		}
		a.bench.keep(fmt.Sprintf("apiserver-%s-%d-profile.pprof", name, a.cluster.Pids()[cluster.APIServer]), data)
	})
	defer profiling.Wait()
	return measure(a)
}

// keep writes a profile into the folder for them.
func (b *bench) keep(name string, data []byte) {
	err := errors.Join(os.MkdirAll(b.options.profiles, 0o755), os.WriteFile(filepath.Join(b.options.profiles, name), data, 0o644))
	if err != nil {
		b.say("no profile: %v", err)
	}
}

// profileCPU keeps a profile of the first half minute.
func (p *process) profileCPU() {
	for p.alive() == nil {
		if _, err := p.get(context.Background(), "/debug/pprof/cmdline"); err == nil {
			p.profile("profile?seconds=30")
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// profile keeps a profile. What is not served is not kept.
func (p *process) profile(what string) {
	if p.arena.bench.options.profiles == "" {
		return
	}
	kind, _, _ := strings.Cut(what, "?")
	data, err := p.get(context.Background(), "/debug/pprof/"+what)
	if err != nil {
		return
	}
	p.arena.bench.keep(fmt.Sprintf("%s-%d-%s.pprof", p.name, p.cmd.Process.Pid, kind), []byte(data))
}

// ready waits until /readyz says ok, and says how long that took since the start. A
// controller that has no such address is ready as soon as it acts.
func (p *process) ready(ctx context.Context) (time.Duration, error) {
	if !strings.Contains(p.line, "{address}") {
		return 0, nil
	}
	for time.Since(p.started) < 5*time.Minute {
		if body, err := p.get(ctx, "/readyz"); err == nil && strings.HasPrefix(body, "ok") {
			return time.Since(p.started), nil
		}
		if err := p.alive(); err != nil {
			return 0, err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%s is not ready after five minutes\n%s", p.name, p.tail())
}

// alive says whether the process has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended by itself: %w\n%s", p.name, p.err, p.tail())
	default:
		return nil
	}
}

// stop ends the process as a kubelet would, and says if it had ended before.
func (p *process) stop() error {
	if err := p.alive(); err != nil {
		return err
	}
	p.profile("heap?gc=1")
	p.profile("allocs")
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may end just now
	select {
	case <-p.exited:
		return nil
	case <-time.After(30 * time.Second):
		err := p.cmd.Process.Kill()
		<-p.exited
		return errors.Join(fmt.Errorf("%s did not end within 30 s of SIGTERM", p.name), err)
	}
}

// get reads a path of the controller's own server.
func (p *process) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return string(body), err
}

func (p *process) tail() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
