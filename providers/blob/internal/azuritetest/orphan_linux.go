package azuritetest

import "syscall"

// orphanAttr gives a process a group of its own, and KILL as soon as the tests'
// process has died, however it died.
func orphanAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
