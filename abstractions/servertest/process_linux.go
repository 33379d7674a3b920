package servertest

import (
	"os/exec"
	"syscall"
)

// dieWithParent gives a process a group of its own, so that it gets no signals meant
// for its parent, such as that of Ctrl-C. The process gets SIGKILL as soon as its
// parent dies, for whatever reason.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
}
