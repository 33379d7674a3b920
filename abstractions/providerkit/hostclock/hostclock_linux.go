package hostclock

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // of clock_gettime(2)

// Now reads the host's clocks.
func Now() Time {
	now := Time{Wall: time.Now().Round(0), Boot: bootID()}
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if now.Boot == "" || errno != 0 {
		now.Boot = ""
		return now
	}
	now.SinceBoot = time.Duration(ts.Nano())
	return now
}

// bootID identifies a boot and a time namespace of that boot, since each namespace may
// have a BOOTTIME clock of its own (time_namespaces(7)).
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // absent before Linux 5.6
	return strings.TrimSpace(string(id)) + " " + namespace
})
