//go:build unix

package supervise

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// suspend also stops leasing after the command was stopped from the terminal, so that the shell gets the
// terminal back. The CONT of fg or bg is forwarded. A command that was stopped because it has no terminal, as in
// a pipeline, gets the terminal of this process.
func (s *supervisor) suspend(by unix.Signal) {
	wants := by == unix.SIGTTIN || by == unix.SIGTTOU
	if wants && s.terminal == nil {
		terminal, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return
		}
		s.terminal = terminal
		signal.Ignore(unix.SIGTTOU)
	}
	switch {
	case wants && ownTerminal(s.terminal):
		s.Warn("%s: the command uses the terminal, and is now in the foreground", s.lease.Name())
		s.giveTerminal()
		s.signal(unix.SIGCONT)
	case wants:
		s.Warn("%s: the command uses the terminal, which another program has: the command is stopped until leasing is in the foreground", s.lease.Name())
		_ = unix.Kill(0, unix.SIGSTOP)
	case s.terminal != nil:
		s.takeTerminal()
		_ = unix.Kill(0, unix.SIGSTOP)
	}
}

// inForeground reports whether this process is in the foreground of the terminal that it reads from and writes to. In
// a pipeline the terminal is left to the other programs until the command needs it: see suspend.
func inForeground() bool { return ownTerminal(os.Stdin) && ownTerminal(os.Stdout) }

// ownTerminal reports whether a file is a terminal whose foreground group is that of this process.
func ownTerminal(file *os.File) bool {
	group, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (s *supervisor) giveTerminal() {
	if s.group != 0 {
		_ = unix.IoctlSetPointerInt(int(s.terminal.Fd()), unix.TIOCSPGRP, s.group)
	}
}

// takeTerminal takes the terminal back from the group.
func (s *supervisor) takeTerminal() {
	if s.terminal == nil {
		return
	}
	if group, err := unix.IoctlGetInt(int(s.terminal.Fd()), unix.TIOCGPGRP); err == nil && group == s.group {
		_ = unix.IoctlSetPointerInt(int(s.terminal.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
	}
}
