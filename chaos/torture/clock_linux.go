package torture

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is the clock that Go's own monotonic readings are taken from
// (clock_gettime(2)): one for all processes since the machine's start.
const clockMonotonic = 1

func machineTime() time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}
