//go:build unix && !linux

package main

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

// diesWithGuard returns nil: only Linux and FreeBSD have such a signal, and it is untested on FreeBSD here.
func diesWithGuard() *syscall.SysProcAttr { return nil }

// adopts is false: the system has no way to keep descendants whose parent has ended.
const adopts = false

// adopt does nothing.
func adopt(bool) {}

// kin visits the only descendant that this system can name: the command, also in a group of its own.
func kin(_, command int, visit func(pid int) bool) {
	if command != 0 {
		_ = visit(command)
	}
}

// bootTime is a clock that all processes of the machine share. On macOS it runs on while
// the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano())
}

// alarm is poll's own timeout, and a check of the clock from time to time.
type alarm struct{}

func (alarm) set(_ *unix.PollFd, at time.Duration) int {
	return int(min(at-bootTime(), 250*time.Millisecond)/time.Millisecond) + 1
}

// canSupervise returns why no command can be run here, or nil.
func canSupervise() error { return nil }

// ignoredAtStart is the set of signals that were ignored when this process began.
func ignoredAtStart() (ignored signalSet) {
	for sig := unix.Signal(1); sig < 32; sig++ {
		if signal.Ignored(sig) {
			ignored |= 1 << (sig - 1)
		}
	}
	return ignored
}
