package redistest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// orphanAttr gives a process a group of its own, and KILL as soon as the tests'
// process has died, however it died.
func orphanAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// isPaused says whether a process has stopped: the signal has been sent before
// it has. The state follows the name in parentheses (proc_pid_stat(5)).
func isPaused(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	return err == nil && strings.HasPrefix(string(after), " T")
}
