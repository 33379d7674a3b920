package torture

import (
	"os/exec"
	"syscall"
)

// orphansDie has Linux kill a worker process when its parent ends, however that ends.
// One that is stopped could not end by itself.
func orphansDie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
