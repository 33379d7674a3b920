//go:build unix && !linux

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// diesWithGuard returns nil: apart from Linux only FreeBSD has a parent-death signal, which is not tested
// here.
func diesWithGuard() *syscall.SysProcAttr { return nil }

// bootTime reads a clock that all processes of the machine share. On macOS the clock
// continues while the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano())
}

// alarm uses poll's own timeout, and makes poll return from time to time to check the clock.
type alarm struct{}

func (alarm) set(_ *unix.PollFd, at time.Duration) int {
	return int(min(at-bootTime(), 250*time.Millisecond)/time.Millisecond) + 1
}

// Check returns the reason why no command can be run here, or nil.
func Check() error { return nil }

// ignoredAtStart returns the set of signals that were ignored when this process began.
func ignoredAtStart() (ignored signalSet) {
	for sig := unix.Signal(1); sig < 32; sig++ {
		if signal.Ignored(sig) {
			ignored |= 1 << (sig - 1)
		}
	}
	return ignored
}
