package show

import "syscall"

// unlessOrphaned lets the kernel kill a worker whose parent has died. A worker
// notices that itself, but not while it is paused.
func unlessOrphaned() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
