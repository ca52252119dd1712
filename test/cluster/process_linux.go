package cluster

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// attributes puts a child in its own session and, unless it shall outlive us,
// has the kernel kill it when we die, however we die.
func attributes(outlive bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !outlive {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// commandLine returns a process's arguments joined by spaces. It is empty for
// a process that has ended and only waits to be collected.
func commandLine(pid int) (string, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if os.IsNotExist(err) {
		return "", false
	}
	if err != nil {
		return psCommandLine(pid)
	}
	return string(bytes.TrimSpace(bytes.ReplaceAll(data, []byte{0}, []byte{' '}))), true
}
