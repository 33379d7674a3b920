package supervise

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoredAtStart returns the set of signals that were ignored when this process began. The Go runtime leaves a
// few signals unchanged, and the kernel reports whether those are ignored. The runtime catches the others
// before any other code runs, and remembers their earlier state: see wasIgnored.
func ignoredAtStart() (ignored signalSet) {
	text, _ := os.ReadFile("/proc/self/status") // Check has found /proc
	for line := range strings.Lines(string(text)) {
		if mask, found := strings.CutPrefix(line, "SigIgn:"); found {
			bits, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			ignored = signalSet(bits)
		}
	}
	if !ignored.has(unix.SIGINT) && wasIgnored(unix.SIGINT) { // the runtime does not do what wasIgnored expects
		return ignored
	}
	for _, sig := range fatalSignals {
		if !ignored.has(sig) && wasIgnored(sig) {
			ignored |= 1 << (sig - 1)
		}
	}
	return ignored
}

// fatalSignals are the signals that the Go runtime catches and that end a process by default, except those that the
// runtime uses itself and those without a common meaning.
var fatalSignals = []unix.Signal{
	unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
	unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR,
}

// action is the kernel's struct sigaction, as opaque bytes.
type action [8]uint64

func (a *action) swap(sig unix.Signal, to *action) bool {
	const maskBytes = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(a)), maskBytes, 0, 0)
	return errno == 0
}

// wasIgnored reports whether a signal was ignored when this process began. If the handler of the Go runtime is called
// for a signal that Go ignores, the handler acts as the signal would have acted without Go (sigfwdgo in
// runtime/signal_unix.go): it does nothing, or ends the process. So wasIgnored sends the signal to a copy of this
// process, which does nothing else. Afterwards the signal has its default action, or is ignored.
func wasIgnored(sig unix.Signal) bool {
	var handler, before, defaultAction action
	if !handler.swap(sig, nil) {
		return false
	}
	signal.Ignore(sig)
	before.swap(sig, &handler)
	pid, errno := forkAndSignal(sig)
	var status unix.WaitStatus
	if errno == 0 {
		for {
			if _, err := unix.Wait4(int(pid), &status, 0, nil); err != unix.EINTR {
				break
			}
		}
	}
	ignored := errno == 0 && status.Exited() && status.ExitStatus() == 0
	if !ignored {
		before.swap(sig, &defaultAction)
	} else {
		signal.Ignore(sig)
	}
	return ignored
}

// forkAndSignal forks a process that sends itself a signal and, if it survives, exits with 0. The copy has only
// one thread, so it runs only code that needs no other thread: system calls and the first lines of the runtime's
// handler.
//
//go:norace
//go:nosplit
//go:noinline
func forkAndSignal(sig unix.Signal) (pid uintptr, errno unix.Errno) {
	pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0) // no core dump
	self, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_KILL, self, uintptr(sig), 0)
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
