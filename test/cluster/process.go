package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one running component, either a child of ours or, after Load, one
// that another process started.
type process struct {
	pid    int
	binary string
	folder string // the cluster's folder, which each component has in its arguments
	ended  chan struct{}
	// logStart is where its own output begins in the log file, which it shares
	// with those that ran before it.
	logStart int64
}

// startThread is where children that shall end with us are started. The kernel
// ties their end to the thread that forked them, not to the process, and Go
// ends threads as it likes: so one thread is kept for it, for good.
var startThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range work {
			start()
		}
	}()
	return work
})

// startProcess runs a binary with its output in a log file, in a session of its
// own: a Ctrl-C at the terminal reaches us alone, and we stop the components in
// their right order.
func startProcess(binary string, args, env []string, folder, logFile string, outlive bool) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, env, log, log
	cmd.SysProcAttr = attributes(outlive)
	started := make(chan error)
	startThread() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	p := &process{pid: cmd.Process.Pid, binary: binary, folder: folder, ended: make(chan struct{}), logStart: before.Size()}
	go func() {
		// How it ended is in its log; that it ended is all we need.
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// alive reports whether the process runs. For one that is not our child the pid
// alone proves nothing, it may have been given to another program since.
func (p *process) alive() bool {
	if p.ended == nil {
		return runs(p.pid, p.binary, p.folder)
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the process and waits for it. It asks for no graceful end: the
// components have nothing worth saving, and an API server that is asked waits
// for minutes.
func (p *process) kill() error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s (pid %d): %w", p.binary, p.pid, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := poll(ctx, 10*time.Millisecond, func(context.Context) (bool, error) { return !p.alive(), nil })
	if err != nil {
		return fmt.Errorf("%s (pid %d) does not end after a kill: %w", p.binary, p.pid, err)
	}
	return nil
}

// runs compares the command line of a pid with what we would have started.
func runs(pid int, binary, folder string) bool {
	line, ok := commandLine(pid)
	return ok && strings.HasPrefix(line, binary) && strings.Contains(line, folder)
}

// psCommandLine asks ps, which every Unix has. A process that ended but was not
// collected yet shows without arguments and so never matches.
func psCommandLine(pid int) (string, bool) {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(out)), true
}

// tail returns the last lines of a log file, from an offset on, for an error
// message.
func tail(file string, from int64) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(string(data[min(from, int64(len(data))):]), 20)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
