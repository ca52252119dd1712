//go:build !linux

package cluster

import "syscall"

// attributes puts a child in its own session. Only Linux can also tie its life
// to ours.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func commandLine(pid int) (string, bool) { return psCommandLine(pid) }
