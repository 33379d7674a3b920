//go:build unix

package supervise

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// signalSet is a set of signals, as in /proc/self/status (proc_pid_status(5)).
type signalSet uint64

func (s signalSet) has(sig unix.Signal) bool { return sig > 0 && s&(1<<(sig-1)) != 0 }

// lastSignal is the highest signal number.
const lastSignal = unix.Signal(64)

// forwarded are the signals that are passed on to the command: all that can be caught, except those that report
// a process's own faults, children, pipes and terminal. TSTP is also passed on once there is a command: until
// then it stops leasing, as it would stop any program.
var forwarded = func() (all []os.Signal) {
	for sig := unix.Signal(1); sig <= lastSignal; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE,
			unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS:
		default:
			all = append(all, sig)
		}
	}
	return all
}()

// endsLeasing reports whether a signal ends the leasing command while the command waits for a lease, as the signal would end any program.
func endsLeasing(s os.Signal) bool {
	return s != unix.SIGWINCH && s != unix.SIGCONT && s != unix.SIGTSTP
}

// asksToQuit reports whether a signal asks a program to end. These signals also end an election.
func asksToQuit(s os.Signal) bool {
	return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGHUP || s == unix.SIGQUIT
}

// Catch sends the signals of this process to the channel, unless they were ignored when the process began.
func (s *Signals) Catch() {
	s.ignored = ignoredAtStart()
	for _, sig := range forwarded {
		if !s.ignored.has(sig.(unix.Signal)) { // nohup stays in force
			signal.Notify(s.caught, sig)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // a closed standard error does not end the command
}
