//go:build unix

package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing"
)

// forwarded are the signals that are passed on to the command. TSTP is, too, but not before
// there is one: until then it stops leasing, as it would stop any program.
var forwarded = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
}

// ends reports whether a signal ends leasing while it waits for a lease.
func ends(s os.Signal) bool {
	return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGHUP || s == unix.SIGQUIT
}

// guardDead stands for the exit code of a command whose guard somebody has killed. The command
// dies with it, or in end.
const guardDead = -1

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// killMargin is how long before the end of trust the group gets KILL: whoever sends it
// has to be scheduled first.
func killMargin(ttl time.Duration) time.Duration { return min(ttl/20, 250*time.Millisecond) }

// supervisor is one run of a command. Two processes can end it: this one, which has the lease,
// and the guard, which leads the command's process group and knows the deadline alone. The
// guard acts when this process is stopped or dead. All times are on the boot clock.
type supervisor struct {
	*work
	lease    leasing.Lease
	group    int           // the guard's process ID. It is not waited for before end, so the number stays its
	deadline *os.File      // to the guard
	until    time.Duration // when the group gets KILL
	lost     error         // why the command was stopped, or nil
	lostAt   time.Duration // when
	terminal bool          // the group has the terminal
}

// under runs the command, and returns when no process of its group is left: the exit
// code, and why it is not the command's.
func (w *work) under(lease leasing.Lease) (code int, err error) {
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(w.signals, unix.SIGTSTP)
		defer signal.Reset(unix.SIGTSTP)
	}
	s := &supervisor{work: w, lease: lease}
	s.until = s.trusted()
	reports, err := s.start()
	if err != nil {
		return exitFailed, err
	}
	code, err = s.watch(reports)
	guard := s.end()
	if code == guardDead {
		code = exitSignal + int(unix.SIGKILL)
		if guard.Signaled() {
			code = exitSignal + int(guard.Signal())
		}
	}
	return code, err
}

// trusted is when the group has to be dead. The clock is read before the time that is
// left: a pause between the two makes it earlier.
func (s *supervisor) trusted() time.Duration {
	if s.onLoss == lossIgnore {
		return never
	}
	now := bootTime()
	return now + s.lease.Remaining() - killMargin(s.lease.TTL())
}

// start starts the guard, and that the command. The channel is closed when the guard is dead.
func (s *supervisor) start() (<-chan report, error) {
	theirDeadline, deadline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, theirReports, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirDeadline.Close(), deadline.Close())
	}
	s.deadline = deadline
	s.extend()
	cmd := &exec.Cmd{
		Path: self(), Args: append([]string{guardName}, s.argv...), Env: s.environ(s.lease),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles:  []*os.File{theirDeadline, theirReports},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Foreground: inForeground()},
	}
	err = cmd.Start()
	if err = errors.Join(err, theirDeadline.Close(), theirReports.Close()); err != nil {
		return nil, errors.Join(err, deadline.Close(), reports.Close())
	}
	s.group, s.terminal = cmd.Process.Pid, cmd.SysProcAttr.Foreground
	if s.terminal {
		signal.Ignore(unix.SIGTTOU) // for takeTerminal. Only now: the guard would inherit it
	}
	heard := make(chan report)
	go func() {
		defer close(heard)
		for lines := bufio.NewScanner(reports); lines.Scan(); {
			if r, ok := parseReport(lines.Text()); ok {
				heard <- r
			}
		}
		_ = reports.Close()
	}()
	return heard, nil
}

// extend tells the guard until when the group may live. The pipe has room for thousands of
// these, so nothing blocks while the guard is stopped.
func (s *supervisor) extend() {
	var message [8]byte
	binary.NativeEndian.PutUint64(message[:], uint64(s.until))
	_, _ = s.deadline.Write(message[:]) // fails when the guard is dead, which its reports show
}

func (s *supervisor) signal(sig unix.Signal) { _ = unix.Kill(-s.group, sig) }

// watch looks after the lease and the command until that has ended.
func (s *supervisor) watch(reports <-chan report) (code int, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	released := s.lease.Done()
	var signals <-chan os.Signal // from when the guard can bear them
	for {
		due := s.until
		if s.lost == nil && due != never {
			due -= s.grace
		}
		timer.Reset(due - bootTime())
		select {
		case <-timer.C:
			if !s.refresh() && bootTime() >= due {
				s.stop(s.expiry(), false)
			}
		case sig := <-signals:
			s.forward(sig.(syscall.Signal))
		case <-s.renewed:
			s.refresh()
		case <-released:
			released = nil
			s.onLost()
		case r, open := <-reports:
			switch {
			case !open && (s.lost != nil || bootTime() >= s.until):
				return exitLost, cmp.Or(s.lost, s.expiry())
			case !open:
				return guardDead, nil
			case r.kind == started:
				signals = s.signals
			case r.kind == stopped:
				s.suspend()
			case s.lost != nil && s.lostAt <= r.at:
				return exitLost, s.lost
			default:
				return r.code, r.err
			}
		}
	}
}

// refresh moves the deadline, and reports whether it did. An event of a renewal may be late.
func (s *supervisor) refresh() bool {
	until := s.trusted()
	if s.lost != nil || until <= s.until {
		return false
	}
	s.until = until
	s.extend()
	return true
}

// expiry is the reason for a stop when time runs out.
func (s *supervisor) expiry() error {
	if err := s.lease.Err(); err != nil {
		return fmt.Errorf("%s: %w", s.lease.Name(), err)
	}
	return fmt.Errorf("%s: %w: it could not be renewed in time", s.lease.Name(), leasing.ErrLost)
}

// stop ends the command because of its lease: the first time with TERM, unless it has no
// grace, and with KILL when that is over.
func (s *supervisor) stop(reason error, atOnce bool) {
	now := bootTime()
	first := s.lost == nil
	if first {
		s.lost, s.lostAt = reason, now
	}
	if !first || atOnce || s.grace == 0 || now >= s.until {
		s.signal(unix.SIGKILL)
		s.until = never
		return
	}
	s.app.warn("%s; the command gets TERM", oneLine(reason))
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT) // one that is stopped has to go on to end
	s.until = min(s.until, now+s.grace)
	s.extend()
}

// onLost is called when the lease has ended under the command. Who has broken it may want
// the name at once. Where somebody else has it already there is no time left.
func (s *supervisor) onLost() {
	if s.onLoss == lossIgnore {
		s.app.warn("%s; the command goes on", oneLine(s.expiry()))
		return
	}
	lost := (*leasing.LostError)(nil)
	broken := errors.As(s.lease.Err(), &lost) && lost.Reason == leasing.LostBroken
	if s.lost == nil || !broken {
		s.stop(s.expiry(), !broken)
	}
}

// groupTime is how long the processes of a group take to die, at most, before that is
// taken for a fault: a dead disk, or another user's process.
const groupTime = 5 * time.Second

// end ends what is left of the group, the guard too, and waits until it is gone: the lease
// is not given up before that. It returns how the guard ended.
func (s *supervisor) end() (guard unix.WaitStatus) {
	s.signal(unix.SIGKILL)
	_ = s.deadline.Close()
	over := time.Now().Add(groupTime)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		for { // the guard, and orphans if this is a container's first process
			var status unix.WaitStatus
			pid, _ := unix.Wait4(-s.group, &status, unix.WNOHANG, nil)
			if pid <= 0 {
				break
			}
			if pid == s.group {
				guard = status
			}
		}
		if unix.Kill(-s.group, 0) == unix.ESRCH {
			break
		}
		if time.Now().After(over) {
			s.kept = true
			s.app.warn("%s: processes of the command (group %d) do not end, so the lease is not given up", s.lease.Name(), s.group)
			break
		}
		<-tick.C
	}
	s.takeTerminal()
	return guard
}

// forward passes a signal on.
func (s *supervisor) forward(sig unix.Signal) {
	if sig == unix.SIGCONT && s.terminal && inForeground() {
		s.giveTerminal()
	}
	if ends(sig) {
		s.ended = sig
	}
	s.signal(sig)
	if ends(sig) {
		s.signal(unix.SIGCONT) // as in stop
	}
	if sig == unix.SIGTSTP {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}

// suspend follows a command that was stopped from the terminal, so that the shell has its turn.
// The CONT of fg or bg is forwarded.
func (s *supervisor) suspend() {
	if s.terminal {
		s.takeTerminal()
		_ = unix.Kill(0, unix.SIGSTOP)
	}
}

// inForeground reports whether this process reads from and writes to a terminal that is its own. In
// a pipeline the terminal is left to the others.
func inForeground() bool {
	for _, file := range []int{0, 1} {
		if group, err := unix.IoctlGetInt(file, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
			return false
		}
	}
	return true
}

func (s *supervisor) giveTerminal() { _ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, s.group) }

func (s *supervisor) takeTerminal() {
	if s.terminal {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
	}
}
