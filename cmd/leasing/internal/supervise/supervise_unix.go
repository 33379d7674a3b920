//go:build unix

package supervise

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/descendants"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// guardDead stands for the exit code of a command whose guard was killed. The command dies with the
// guard, or is killed by finish.
const guardDead = -1

// never is the latest possible time, which no clock reaches.
const never = time.Duration(math.MaxInt64)

// killMargin is the time from KILL to the end of trust. The sender of the signal has to be
// scheduled in this time.
func killMargin(ttl time.Duration) time.Duration { return min(ttl/20, 250*time.Millisecond) }

// supervisor is one run of a command. Three processes can end it: this one, which has the lease,
// and two guards, which have only the deadline. The guards act when this process is stopped or
// dead. All times are on the boot clock.
type supervisor struct {
	*Command
	lease     *leasing.Lease
	env       []string
	guard     int           // the outer guard's process ID, which is not reused before finish waits for the guard
	group     int           // the inner guard's process ID, and that of the command's group; 0 before the command has started
	command   int           // the command's process ID; 0 before the command has started
	existing  map[int]bool  // the descendants that this process had before it started the guards
	deadlines []*os.File    // to the guards
	killAt    time.Duration // when the command is sent KILL
	lost      error         // why the command was stopped, or nil
	lostAt    time.Duration // when the command was stopped
	killed    bool          // the command was sent KILL
	result    *report       // how the command ended; nil until then
	settleAt  time.Duration // when the processes that the command has left running are sent TERM
	sentTerm  bool          // the processes left running were sent TERM
	terminal  *os.File      // the terminal that the group has, or nil
}

// settleTime is the time for which processes that the command has left running may continue: first to finish their
// output, and again after TERM.
const settleTime = time.Second

// Run runs the command, and returns when it has ended with all its descendants. It returns the exit
// code, and a reason if the code is not the command's.
func (c *Command) Run(lease *leasing.Lease, env []string) (code int, err error) {
	if !c.Signals.ignored.has(unix.SIGTSTP) {
		signal.Notify(c.Signals.caught, unix.SIGTSTP)
		defer signal.Reset(unix.SIGTSTP)
	}
	s := &supervisor{Command: c, lease: lease, env: env}
	s.killAt = s.trustedUntil()
	reports, err := s.start()
	if err != nil {
		return exit.Failed, err
	}
	err = s.watch(reports)
	code = s.result.code
	guard := s.finish()
	if code == guardDead {
		code = exit.Signal + int(unix.SIGKILL)
		if guard.Signaled() {
			code = exit.Signal + int(guard.Signal())
		}
	}
	return code, err
}

// trustedUntil returns the time at which the command has to be dead. It reads the clock before the remaining
// time, so that a pause between the two only makes the result earlier.
func (s *supervisor) trustedUntil() time.Duration {
	if s.OnLoss == LossIgnore {
		return never
	}
	now := bootTime()
	return now + s.lease.Remaining() - killMargin(s.lease.TTL())
}

// start starts the guards, and they start the command. The channel is closed when the inner guard is dead.
func (s *supervisor) start() (<-chan report, error) {
	guardFiles := make([]*os.File, 0, 3)
	defer func() {
		for _, file := range guardFiles {
			_ = file.Close()
		}
	}()
	for range 2 {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, s.closeDeadlines())
		}
		guardFiles, s.deadlines = append(guardFiles, read), append(s.deadlines, write)
	}
	reports, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, s.closeDeadlines())
	}
	guardFiles, s.existing = append(guardFiles, write), map[int]bool{}
	s.extend()
	descendants.Visit(os.Getpid(), 0, func(pid int) bool { s.existing[pid] = true; return true })
	descendants.AdoptOrphans(true) // needed if the outer guard is killed
	if inForeground() {
		s.terminal = os.Stdin
	}
	hasListenPID := os.Getenv(listenPID) == strconv.Itoa(os.Getpid())
	files, at := inheritFiles(guardFiles[0].Fd(), guardFiles[1].Fd(), guardFiles[2].Fd())
	o := guardArgs{
		deadlines: at[0], inner: at[1], reports: at[2], foreground: s.terminal != nil,
		stub: hasListenPID || s.Signals.ignored.has(unix.SIGCHLD), ignored: s.Signals.ignored,
	}
	s.guard, err = syscall.ForkExec(self(), append([]string{outerName, o.String(), s.Path}, s.Argv...), &syscall.ProcAttr{
		Env: s.env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, errors.Join(err, s.closeDeadlines(), reports.Close())
	}
	if s.terminal != nil {
		signal.Ignore(unix.SIGTTOU) // for takeTerminal; not earlier, since the guard would inherit the setting
	}
	parsed := make(chan report)
	go func() {
		defer close(parsed)
		for lines := bufio.NewScanner(reports); lines.Scan(); {
			if r, ok := parseReport(lines.Text()); ok {
				parsed <- r
			}
		}
		_ = reports.Close()
	}()
	return parsed, nil
}

// listenPID is the environment variable that names the process for which systemd has opened files (sd_listen_fds(3)).
const listenPID = "LISTEN_PID"

// extend sends the deadline of the group to the guards. A pipe has room for thousands of
// deadlines, so extend does not block while a guard is stopped.
func (s *supervisor) extend() {
	var message [8]byte
	binary.NativeEndian.PutUint64(message[:], uint64(s.killAt))
	for _, deadline := range s.deadlines {
		_, _ = deadline.Write(message[:]) // fails when the guard is dead, which the reports show
	}
}

// closeDeadlines makes the guards end the command, and then exit.
func (s *supervisor) closeDeadlines() (err error) {
	for _, deadline := range s.deadlines {
		err = errors.Join(err, deadline.Close())
	}
	return err
}

// signalRounds is the maximum number of times that the method signal searches for new processes.
const signalRounds = 20

// signal sends a signal to the command's group, and once to each descendant outside of the group.
func (s *supervisor) signal(sig unix.Signal) {
	if s.group == 0 {
		return
	}
	_ = unix.Kill(-s.group, sig)
	signalled := map[int]bool{}
	for round, found := 0, true; found && round < signalRounds; round++ {
		found = false
		descendants.Visit(s.group, s.command, func(pid int) bool {
			if signalled[pid] {
				return true
			}
			signalled[pid], found = true, true
			if group, _ := unix.Getpgid(pid); group != s.group {
				_ = unix.Kill(pid, sig)
				if !descendants.AdoptsOrphans {
					s.Warn("%s: the command has left its process group, and its children may go on", s.lease.Name())
				}
			}
			return true
		})
	}
}

// kill ends the command and all its descendants. It also resumes stopped guards, which then do the same.
func (s *supervisor) kill() {
	killAll(s.group, s.guard, s.command, s.group)
	for _, guard := range s.guards() {
		_ = unix.Kill(guard, unix.SIGCONT)
	}
}

// guards returns the known process IDs of the guards.
func (s *supervisor) guards() []int {
	if s.group == 0 {
		return []int{s.guard}
	}
	return []int{s.guard, s.group}
}

// watch supervises the lease and the command until the command has ended with all its descendants. It sets the result.
func (s *supervisor) watch(reports <-chan report) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	released := s.lease.Done()
	var signals <-chan os.Signal // nil until the guard catches signals
	for {
		due := s.nextAction()
		timer.Reset(due - bootTime())
		select {
		case <-timer.C:
			switch now := bootTime(); {
			case s.refresh() || now < due:
			case s.result == nil || now < s.settleAt:
				s.stop(s.expiry(), false)
			case s.sentTerm:
				return s.result.err
			default:
				s.terminateRest()
			}
		case sig := <-signals:
			s.forward(sig.(syscall.Signal))
		case <-s.Renewed:
			s.refresh()
		case <-released:
			released = nil
			s.onLost()
		case r, open := <-reports:
			switch {
			case open && r.kind == kindStarted:
				s.group, s.command, signals = r.group, r.code, s.Signals.caught
			case open && r.kind == kindStopped:
				s.suspend(unix.Signal(r.code))
			case open && r.kind == kindEnded:
				switch {
				case s.lost != nil && s.lostAt <= r.at:
					r.code, r.err = exit.Lost, s.lost
				case r.at >= s.killAt: // a guard has ended the command
					r.code, r.err = exit.Lost, s.expiry()
				}
				s.result, s.settleAt = &r, bootTime()+settleTime
			case s.result != nil: // no process of the command is left
				return s.result.err
			case !open && (s.lost != nil || bootTime() >= s.killAt):
				s.result = &report{code: exit.Lost, err: cmp.Or(s.lost, s.expiry())}
				return s.result.err
			case !open:
				s.result = &report{code: guardDead}
				return nil
			}
		}
	}
}

// nextAction returns the time of the next action, if no event comes earlier.
func (s *supervisor) nextAction() time.Duration {
	due := s.killAt
	if s.lost == nil && due != never {
		due -= s.Grace
	}
	if s.result != nil {
		due = min(due, s.settleAt)
	}
	return due
}

// terminateRest sends TERM to the processes that the command has left running.
func (s *supervisor) terminateRest() {
	s.sentTerm, s.settleAt = true, bootTime()+settleTime
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT) // a stopped process has to continue before it can end
}

// refresh moves the deadline, and reports whether the deadline has moved. It does not move a deadline that has
// passed: the event of a renewal may be late, and the guards have acted on that deadline.
func (s *supervisor) refresh() bool {
	until := s.trustedUntil()
	if s.lost != nil || until <= s.killAt || bootTime() >= s.killAt {
		return false
	}
	s.killAt = until
	s.extend()
	return true
}

// expiry returns the reason for a stop at the end of trust.
func (s *supervisor) expiry() error {
	if err := s.lease.Err(); err != nil {
		return fmt.Errorf("%s: %w", s.lease.Name(), err)
	}
	return fmt.Errorf("%s: %w: the lease could not be renewed in time", s.lease.Name(), leasing.ErrLost)
}

// stop ends the command because its lease is lost or about to run out. The first call sends TERM,
// if there is time for a grace period and atOnce is false. Otherwise stop sends KILL.
func (s *supervisor) stop(reason error, atOnce bool) {
	now := bootTime()
	first := s.lost == nil
	if first {
		s.lost, s.lostAt = reason, min(now, s.killAt) // a guard acts at the deadline, even while leasing is stopped
	}
	if !first || atOnce || s.Grace == 0 || now >= s.killAt {
		if s.killed { // and the inner guard has reported nothing since
			for _, guard := range s.guards() {
				_ = unix.Kill(guard, unix.SIGKILL)
			}
		}
		s.killed, s.killAt = true, now
		s.extend()
		s.kill()
		s.killAt = now + killTimeout
		return
	}
	s.killAt = min(s.killAt, now+s.Grace)
	s.extend()
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT) // a stopped process has to continue before it can end
	s.Warn("%s; the command gets TERM", output.OneLine(reason))
}

// onLost ends the command, or with LossIgnore only warns, when the lease has ended before the
// command. After a break the command gets the grace. After any other loss it is killed at once,
// because another holder may already have the name.
func (s *supervisor) onLost() {
	if s.OnLoss == LossIgnore {
		s.Warn("%s; the command goes on", output.OneLine(s.expiry()))
		return
	}
	lost := (*leasing.LostError)(nil)
	broken := errors.As(s.lease.Err(), &lost) && lost.Reason == leasing.LostBroken
	if s.lost == nil || !broken {
		s.stop(s.expiry(), !broken)
	}
}

// killTimeout bounds the wait for the death of the command's processes. A longer wait
// means a fault: a dead disk, or another user's process.
const killTimeout = 5 * time.Second

// finish ends the guards and the remaining processes of the command, and waits for their end, at most for
// killTimeout. If processes are left even then, the lease is not released. finish returns the status of the
// outer guard.
func (s *supervisor) finish() (guard unix.WaitStatus) {
	defer descendants.AdoptOrphans(false)
	_ = s.closeDeadlines() // the guards end when they have ended all other processes
	limit, alive := time.Now().Add(killTimeout), true
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if alive {
			s.kill()
			pid, _ := unix.Wait4(s.guard, &guard, unix.WNOHANG, nil)
			alive = pid != s.guard
		}
		if !alive && (guard.Exited() && guard.ExitStatus() == 0 || s.killOrphans() == 0) {
			break
		}
		if time.Now().After(limit) {
			s.ProcessesLeft = true
			s.Warn("%s: processes of the command (group %d) do not end, so the lease is not released", s.lease.Name(), s.group)
			break
		}
		<-time.After(pause)
	}
	s.takeTerminal()
	if s.terminal != os.Stdin {
		_ = s.terminal.Close() // fails without harm if the file is nil
	}
	return guard
}

// killOrphans ends the processes that killed guards have left to this process, and returns the number of
// processes that it has found.
func (s *supervisor) killOrphans() (found int) {
	if s.group > 0 {
		_ = unix.Kill(-s.group, unix.SIGKILL)
		if unix.Kill(-s.group, 0) != unix.ESRCH {
			found++
		}
	}
	descendants.Visit(os.Getpid(), s.command, func(pid int) bool {
		if s.existing[pid] {
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

// forward passes a signal on to the command.
func (s *supervisor) forward(sig unix.Signal) {
	if sig == unix.SIGCONT && s.terminal != nil && ownTerminal(s.terminal) {
		s.giveTerminal()
	}
	if asksToQuit(sig) {
		s.EndedBy = sig
	}
	s.signal(sig)
	if asksToQuit(sig) {
		s.signal(unix.SIGCONT) // as in stop
	}
	if sig == unix.SIGTSTP {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}
