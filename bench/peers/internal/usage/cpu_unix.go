//go:build unix

package usage

import (
	"syscall"
	"time"
)

// CPU returns the CPU time, user and system, that all threads of this process
// have used. It is 0 where the system can't tell.
func CPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
