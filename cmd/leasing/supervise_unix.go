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

// killMargin is the time from KILL to the end of trust. The sender of the signal has to be
// scheduled in this time.
func killMargin(ttl time.Duration) time.Duration { return min(ttl/20, 250*time.Millisecond) }

// supervisor is one run of a command. Two processes can end it: this one, which has the lease,
// and the guard, which starts the command and knows the deadline alone. The
// guard acts when this process is stopped or dead. All times are on the boot clock.
type supervisor struct {
	*work
	lease    leasing.Lease
	group    int           // the guard's process ID, and that of the command's group. It is not waited for before end
	command  int           // the command's process ID; 0 before it has started
	before   map[int]bool  // the descendants that this process had before the guard
	deadline *os.File      // to the guard
	until    time.Duration // when the command gets KILL
	lost     error         // why the command was stopped, or nil
	lostAt   time.Duration // when
	killed   bool          // the command got KILL
	terminal bool          // the group has the terminal
}

// under runs the command, and returns when it has ended with all its descendants. It returns the exit
// code, and the reason for one that is not the command's.
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

// trusted is the time at which the command has to be dead. The clock is read before the time that is
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
	s.deadline, s.before = deadline, map[int]bool{}
	s.extend()
	kin(os.Getpid(), 0, func(pid int) bool { s.before[pid] = true; return true })
	adopt(true) // which matters if the guard is killed
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

// signalRounds bounds the searches of signal for new processes.
const signalRounds = 20

// signal sends a signal to the command's group, and once to each descendant outside of the group.
func (s *supervisor) signal(sig unix.Signal) {
	_ = unix.Kill(-s.group, sig)
	told := map[int]bool{}
	for round, news := 0, true; news && round < signalRounds; round++ {
		news = false
		kin(s.group, s.command, func(pid int) bool {
			if told[pid] {
				return true
			}
			told[pid], news = true, true
			if group, _ := unix.Getpgid(pid); group != s.group {
				_ = unix.Kill(pid, sig)
				if !adopts {
					s.app.warn("%s: the command has left its process group, and what it has started may go on", s.lease.Name())
				}
			}
			return true
		})
	}
}

// kill ends the command and all its descendants. A guard that was stopped goes on, to do the same.
func (s *supervisor) kill() {
	killAll(s.group, s.group, s.command)
	_ = unix.Kill(s.group, unix.SIGCONT)
}

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
				s.command, signals = r.code, s.signals
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
		if s.killed { // and the guard has reported nothing since
			_ = unix.Kill(s.group, unix.SIGKILL)
		}
		s.killed, s.until = true, now
		s.extend()
		s.kill()
		s.until = now + groupTime
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

// groupTime bounds the wait for the death of the command's processes. More of it is a
// fault: a dead disk, or another user's process.
const groupTime = 5 * time.Second

// end ends the guard and all that is left of the command, and waits until no process is left: the lease
// is not given up before that. It returns how the guard ended.
func (s *supervisor) end() (guard unix.WaitStatus) {
	defer adopt(false)
	_ = s.deadline.Close() // the guard ends when it has ended the others
	over, alive := time.Now().Add(groupTime), true
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if alive {
			s.kill()
			pid, _ := unix.Wait4(s.group, &guard, unix.WNOHANG, nil)
			alive = pid != s.group
		}
		if !alive && (guard.ExitStatus() == 0 || s.killOrphans() == 0) {
			break
		}
		if time.Now().After(over) {
			s.kept = true
			s.app.warn("%s: processes of the command (group %d) do not end, so the lease is not given up", s.lease.Name(), s.group)
			break
		}
		<-time.After(pause)
	}
	s.takeTerminal()
	return guard
}

// killOrphans ends the processes that a killed guard has left to this one, and returns how many it has found.
func (s *supervisor) killOrphans() (found int) {
	_ = unix.Kill(-s.group, unix.SIGKILL)
	if unix.Kill(-s.group, 0) != unix.ESRCH {
		found++
	}
	kin(os.Getpid(), s.command, func(pid int) bool {
		if s.before[pid] {
			return false
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		_ = unix.Kill(-pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if unix.Kill(pid, 0) != unix.ESRCH {
			found++
		}
		return true
	})
	return found
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
