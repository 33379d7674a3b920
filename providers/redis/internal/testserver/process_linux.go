package testserver

import (
	"os/exec"
	"syscall"
)

// dieWithParent gives a process a group of its own, so that it gets no signals meant
// for the tests such as Ctrl-C's, and KILL as soon as the tests' process has died,
// however it died.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
