package nodes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// A program that is started anew learns by these variables what it shall be.
const (
	stageEnv = "TRAINJOB_NODES_STAGE"
	dirEnv   = "TRAINJOB_NODES_DIR"

	stageJanitor = "janitor"
	stageInit    = "init"
	stageInside  = "inside"
	stageNode    = "node"
)

// DirEnv names the environment variable that says where worlds have their folders; it must
// not be on an overlay file system. Unset, it is the folder for temporary files.
const DirEnv = "TRAINJOB_NODES_TMP"

// namespaces of a world, and of each node in it.
const namespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Enter runs a program in a world of its own and returns its exit code: first prepare
// outside, then work inside. It does not return in the processes that it starts the
// program anew for.
func Enter(prepare func() error, work func(World) int) int {
	dir := os.Getenv(dirEnv)
	switch os.Getenv(stageEnv) {
	case stageJanitor:
		os.Exit(report(clean(dir)))
	case stageInit:
		os.Exit(first())
	case stageNode:
		os.Exit(report(node(dir)))
	case stageInside:
		return work(World{Dir: dir})
	}
	if err := missing(); err != nil {
		return report(err)
	}
	if err := prepare(); err != nil {
		return report(err)
	}
	code, err := outside()
	if err != nil {
		return report(err)
	}
	return code
}

func report(err error) (code int) {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "nodes:", err)
	return 1
}

// again is the command that starts this program anew for a stage.
func again(stage, dir string, attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), stageEnv+"="+stage, dirEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = attributes
	return cmd, nil
}

// outside makes the world, waits for its end and for the janitor's.
func outside() (code int, err error) {
	// The kernel ties the end of a child to the thread that started it.
	runtime.LockOSThread()
	dir, err := makeDir()
	if err != nil {
		return 1, err
	}
	ended, alive, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer ended.Close()
	janitor, err := again(stageJanitor, dir, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return 1, err
	}
	janitor.Stdin = ended
	if err := janitor.Start(); err != nil {
		return 1, err
	}
	world, err := again(stageInit, dir, &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL, Setsid: true})
	if err != nil {
		return 1, err
	}
	world.ExtraFiles = []*os.File{alive}
	err = world.Start()
	alive.Close() // the first process inside has it now, or nobody
	if err == nil {
		stop := killOnSignal(world.Process)
		err = world.Wait()
		stop()
	}
	err = errors.Join(exitError(err), exitError(janitor.Wait()))
	return world.ProcessState.ExitCode(), err
}

// exitError drops what an exit code says as well.
func exitError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return nil
	}
	return err
}

// killOnSignal ends the world when this process is asked to end.
func killOnSignal(process *os.Process) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for range signals {
			_ = process.Kill() // it has ended by itself, then
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

// makeDir makes the world's folder where containers can be unpacked.
func makeDir() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv(DirEnv), "trainjob-nodes-")
	if err != nil {
		return "", err
	}
	const overlay = 0x794c7630
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "", err
	}
	if fs.Type == overlay {
		return "", errors.Join(fmt.Errorf("%s is on an overlay file system, on which containers cannot be unpacked: name a folder on a disk in %s", dir, DirEnv), os.Remove(dir))
	}
	return dir, nil
}

// clean waits until the last process inside has ended, and removes what is left: folders
// of control groups, and the world's own.
func clean(dir string) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	// The kernel takes a moment to let go of the dead processes' groups.
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = removeGroups(filepath.Base(dir)); err == nil {
			break
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// first is the first process inside: it starts the program, collects processes that lost
// their parents, and ends when the program does, and everything inside with it.
func first() (code int) {
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		runAll("ip link set lo up", "ip link add "+bridge+" type bridge", "ip addr add "+gateway+"/24 dev "+bridge, "ip link set "+bridge+" up"),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
	)
	if err != nil {
		return report(fmt.Errorf("make a world: %w", err))
	}
	cmd, err := again(stageInside, os.Getenv(dirEnv), nil)
	if err != nil {
		return report(err)
	}
	if err := cmd.Start(); err != nil {
		return report(err)
	}
	_, status := reapUntil(cmd.Process.Pid)
	return status.ExitStatus()
}

// reapUntil collects processes until one of those named has ended.
func reapUntil(pids ...int) (int, syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, status
		}
		for _, wanted := range pids {
			if pid == wanted && (status.Exited() || status.Signaled()) {
				return pid, status
			}
		}
	}
}
