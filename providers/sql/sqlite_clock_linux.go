package sqllease

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// hostClock reads the host's clocks.
func hostClock() instant {
	now := instant{wall: time.Now().Round(0), boot: bootID()}
	var ts unix.Timespec
	if now.boot == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		now.boot = ""
		return now
	}
	now.sinceBoot = time.Duration(ts.Nano())
	return now
}

// bootID tells boots apart, and the time namespaces of one boot too: each may
// have a BOOTTIME clock of its own (see time_namespaces(7)).
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // absent before Linux 5.6
	return strings.TrimSpace(string(id)) + " " + namespace
})
