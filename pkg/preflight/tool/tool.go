package tool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Sizes of what is kept of a child's output, in bytes.
const (
	keptOfStdout = 1 << 20
	keptOfStderr = 16 << 10
)

// How long a killed child may take to go, and its pipes to close.
const patience = time.Second

// Command is a program to run.
type Command struct {
	Path string
	Args []string
	// Env of the child, complete.
	Env []string
}

// Result is how a program ended.
type Result struct {
	// Stdout is the first MiB, Stderr the last 16 KiB.
	Stdout, Stderr string
	// ExitCode is -1 if the program did not end by itself.
	ExitCode int
	// Missing: there is no such program.
	Missing bool
	// TimedOut: its time was over, and it was killed.
	TimedOut bool
	// Abandoned: it did not even end when it was killed.
	Abandoned bool
	// Err says why it could not be started or read.
	Err error
}

// Said is what the program printed, or how it failed, in one line.
func (r Result) Said() string {
	for _, text := range []string{r.Stderr, r.Stdout} {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if line := strings.TrimSpace(lines[len(lines)-1]); line != "" {
			return line
		}
	}
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// Run runs a program until it ends or ctx does, and returns within two seconds of that.
func Run(ctx context.Context, command Command) Result {
	path, err := exec.LookPath(command.Path)
	if err != nil {
		return Result{ExitCode: -1, Missing: true, Err: fmt.Errorf("%s is not installed: %w", command.Path, err)}
	}
	if ctx.Err() != nil {
		return Result{ExitCode: -1, TimedOut: true, Err: context.Cause(ctx)}
	}
	stdout, stderr := &kept{limit: keptOfStdout}, &kept{limit: keptOfStderr, last: true}
	cmd := exec.Command(path, command.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = command.Env, stdout, stderr
	// A group of its own, so that what it starts can be killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A grandchild that keeps the pipes open does not hold up Wait.
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return Result{ExitCode: -1, Err: fmt.Errorf("start %s: %w", path, err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	result := Result{ExitCode: -1}
	select {
	case err = <-ended:
	case <-ctx.Done():
		result.TimedOut = true
		kill(cmd.Process.Pid)
		select {
		case err = <-ended:
		case <-time.After(2 * patience):
			result.Abandoned = true
			err = fmt.Errorf("%s does not end even when it is killed", path)
		}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		kill(cmd.Process.Pid)
	}
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		result.ExitCode = 0
	case errors.As(err, &exit):
		result.ExitCode = exit.ExitCode()
	default:
		result.Err = err
	}
	result.Stdout, result.Stderr = stdout.String(), stderr.String()
	return result
}

// kill ends a whole process group; that it is gone already is no error.
func kill(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }

// kept is the beginning or the end of what is written to it. An abandoned child may still
// write while it is read.
type kept struct {
	mu    sync.Mutex
	data  []byte
	limit int
	last  bool
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	room := k.limit - len(k.data)
	switch {
	case len(p) <= room:
		k.data = append(k.data, p...)
	case k.last:
		k.data = append(k.data, p...)
		k.data = append(k.data[:0], k.data[len(k.data)-k.limit:]...)
	default:
		k.data = append(k.data, p[:room]...)
	}
	return len(p), nil
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return string(k.data)
}
