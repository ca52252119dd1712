package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trainjob/controller/test/cluster"
)

// Build compiles the controller into dir and returns its path. With race, the
// binary carries the race detector.
func Build(ctx context.Context, sourceDir, dir string, race bool) (string, error) {
	binary := filepath.Join(dir, "trainjob-controller")
	args := []string{"build", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/trainjob-controller")...)
	cmd.Dir = sourceDir
	if !race {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller: %w\n%s", err, out)
	}
	return binary, nil
}

// Controller is a running controller process.
type Controller struct {
	// Address of /healthz, /readyz and /metrics.
	Address string
	// LogFile holds what the process has written.
	LogFile string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// StartController starts the binary with a kubeconfig and more flags, without leader
// election and webhooks unless flags say otherwise, and returns when /readyz says ok.
// Its log goes to logFile, after what that holds already.
func StartController(ctx context.Context, binary, kubeconfig, logFile string, flags ...string) (*Controller, error) {
	c, err := LaunchController(binary, kubeconfig, logFile, append([]string{"--leader-elect=false", "--webhook=false"}, flags...)...)
	if err != nil {
		return nil, err
	}
	if err := c.AwaitReady(ctx); err != nil {
		_ = c.Kill() // the reason is in err
		return nil, err
	}
	return c, nil
}

// LaunchController starts the binary with a kubeconfig, an address of its own and
// otherwise exactly the flags given. It does not wait for anything.
func LaunchController(binary, kubeconfig, logFile string, flags ...string) (*Controller, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the controller's log: %w", err)
	}
	defer log.Close()
	args := append(slices.Clone(flags), "--kubeconfig", kubeconfig, "--bind-address", address)
	c := &Controller{Address: address, LogFile: logFile, cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Env = os.Environ()
	if err := cluster.StartChild(c.cmd); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// AwaitReady returns when /readyz says ok.
func (c *Controller) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if body, err := c.Get(ctx, "/readyz"); err == nil && strings.HasPrefix(body, "ok") {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("the controller ended before it was ready: %w\n%s", c.err, c.tail())
		case <-ctx.Done():
			return fmt.Errorf("the controller is not ready: %w\n%s", ctx.Err(), c.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Get reads a path of the controller's own server.
func (c *Controller) Get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Address+path, nil)
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
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}

// Pid of the process.
func (c *Controller) Pid() int { return c.cmd.Process.Pid }

// Exited is closed when the process has ended by itself or otherwise.
func (c *Controller) Exited() <-chan struct{} { return c.exited }

// Stop asks the process to end and waits for it. The error says how it ended if that
// was not with exit code 0.
func (c *Controller) Stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("the controller did not end within 30s of SIGTERM\n%s", c.tail()), c.Kill())
	}
	if c.err != nil {
		return fmt.Errorf("the controller ended: %w\n%s", c.err, c.tail())
	}
	return nil
}

// Kill ends the process at whatever it is doing.
func (c *Controller) Kill() error {
	err := c.cmd.Process.Kill()
	<-c.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Troubles are the lines of a controller's log that must not be there: data races,
// panics and errors.
func Troubles(logFile string) ([]string, error) {
	log, err := os.ReadFile(logFile)
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(log)) {
		errorLine := len(line) > 5 && line[0] == 'E' && line[1] >= '0' && line[1] <= '9'
		if errorLine || strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found, nil
}

func (c *Controller) tail() string {
	log, err := os.ReadFile(c.LogFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(log, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-30):], []byte("\n")))
}

// freeAddress is a loopback address nobody listens on at the moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
