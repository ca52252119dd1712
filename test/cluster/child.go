package cluster

import "os/exec"

// StartChild starts a command as a process that ends when this one ends, however it
// ends, and that a Ctrl-C at the terminal does not reach. Waiting for it is up to
// the caller.
func StartChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes(false)
	started := make(chan error)
	startThread() <- func() { started <- cmd.Start() }
	return <-started
}
