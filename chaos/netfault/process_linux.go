package netfault

import (
	"os/exec"
	"syscall"
)

// orphansDie lets the kernel kill the process when this one has died.
func orphansDie(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
