//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardName is what the guard is called in a list of processes.
const guardName = "leasing guard"

// The guard's files beside the standard ones.
const (
	deadlineFile = 3
	reportsFile  = 4
)

func isGuard() bool { return os.Args[0] == guardName }

func init() {
	if isGuard() {
		// The command dies with the thread that forked it (PR_SET_PDEATHSIG, prctl(2)). This is
		// the main thread, which lives as long as the process.
		runtime.LockOSThread()
	}
}

// guard is the process that starts the command, and ends it with all its descendants when the deadline
// comes. It does the same when the pipe of deadlines ends, which means that leasing is dead. On Linux it adopts
// descendants whose parent has ended, so a process that leaves the command's group does not get away. It
// does not end by itself: its process ID names the group.
//
// It reads no lease and needs no network. leasing being stopped, killed or starved does not concern
// it. What ends both at once is left to PR_SET_PDEATHSIG, and so concerns the command's first
// process alone, and only on Linux.
func guard() {
	if len(os.Args) == 1 { // the leader of a group for the guard
		os.Exit(0)
	}
	if unix.Getpgrp() != unix.Getpid() {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exitFailed)
	}
	unix.CloseOnExec(deadlineFile)
	unix.CloseOnExec(reportsFile)
	catchAll()
	adopt(true)
	g := &deadlines{ward: ward{group: unix.Getpid(), gone: make(chan struct{})}}
	g.read()
	g.check()
	err := g.start()
	if err != nil {
		code := exitNotExecutable
		if errors.Is(err, unix.ENOENT) {
			code = exitNotFound
		}
		report{kind: ended, code: code, err: fmt.Errorf("%s: %w", os.Args[1], err)}.send()
	} else {
		report{kind: started, code: g.command}.send()
		go g.reap()
	}
	for {
		g.wait()
		g.check()
	}
}

// ward is the command with all its descendants.
type ward struct {
	group   int // the process group in which the command begins
	command int // the command's process ID
	ending  atomic.Bool
	gone    chan struct{} // closed when no process is left
}

// start starts the command in the group that the guard leads, and takes the guard out of the group: the kernel
// can then end the group with one signal, and the guard lives to end the others.
func (w *ward) start() error {
	leader, err := syscall.ForkExec(self(), []string{guardName}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return err
	}
	w.command, err = syscall.ForkExec(os.Args[1], os.Args[1:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: diesWithGuard(),
	})
	_ = unix.Setpgid(0, leader) // it leads its group until it is waited for, dead or alive
	_ = unix.Kill(leader, unix.SIGKILL)
	for errors.Is(waitFor(leader), unix.EINTR) {
	}
	return err
}

func waitFor(pid int) error {
	_, err := unix.Wait4(pid, nil, 0, nil)
	return err
}

// reap waits for all descendants that the guard has as children, and reports how the command ended. A guard
// without a child has no descendant.
func (w *ward) reap() {
	defer close(w.gone)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD
			return
		case pid != w.command || w.ending.Load():
		case status.Stopped():
			report{kind: stopped}.send()
		case status.Signaled():
			report{kind: ended, code: exitSignal + int(status.Signal())}.send()
		default:
			report{kind: ended, code: status.ExitStatus()}.send()
		}
	}
}

// end kills all, and returns when no process is left.
func (w *ward) end() {
	w.ending.Store(true)
	for pause := time.Duration(0); ; pause = min(pause+100*time.Microsecond, 5*time.Millisecond) {
		killAll(w.group, unix.Getpid(), w.command)
		select {
		case <-w.gone:
			if unix.Kill(-w.group, 0) == unix.ESRCH {
				return
			}
			<-time.After(pause)
		case <-time.After(pause): // a process that forks all the time gets no rest
		}
	}
}

// killAll sends KILL to a group, to the descendants of a process, and to the groups that they lead: a group
// that forks all the time dies by one signal.
func killAll(group, root, command int) {
	_ = unix.Kill(-group, unix.SIGKILL)
	kin(root, command, func(pid int) bool {
		_ = unix.Kill(pid, unix.SIGKILL)
		_ = unix.Kill(-pid, unix.SIGKILL)
		return true
	})
}

// catchAll keeps the signals that the group gets from ending the guard. They are caught, and not
// ignored, since the command would inherit that; what leasing ignores stays so.
func catchAll() {
	caught := make(chan os.Signal, 1)
	for sig := unix.Signal(1); sig < 32; sig++ {
		if sig != unix.SIGCHLD && !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
}

// deadlines is the pipe of deadlines, the latest deadline, and the processes that it ends.
type deadlines struct {
	ward
	until time.Duration // on the boot clock
	alarm alarm
}

// read takes the latest deadline from the pipe, and waits for the first.
func (g *deadlines) read() {
	var messages [512]byte
	n, err := unix.Read(deadlineFile, messages[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(deadlineFile, messages[:])
	}
	if n < 8 { // leasing is dead, or done
		g.finish()
	}
	g.until = time.Duration(binary.NativeEndian.Uint64(messages[n-8:]))
}

func (g *deadlines) check() {
	if bootTime() >= g.until {
		g.finish()
	}
}

// finish ends the command with all its descendants, and the guard.
func (g *deadlines) finish() {
	if g.command != 0 {
		g.end()
	}
	os.Exit(0)
}

// wait waits until there is something to read, or the deadline may have come, and reads all there is: after
// a pause the latest deadline counts, and not the one that was latest before.
func (g *deadlines) wait() {
	files := []unix.PollFd{{Fd: deadlineFile, Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}}
	_, _ = unix.Poll(files, g.alarm.set(&files[1], g.until)) // a signal ends it early, too
	for {
		pending := []unix.PollFd{{Fd: deadlineFile, Events: unix.POLLIN}}
		n, err := unix.Poll(pending, 0)
		switch {
		case n > 0:
			g.read()
		case !errors.Is(err, unix.EINTR):
			return
		}
	}
}

// report is what the guard tells about the command.
type report struct {
	kind string
	code int           // the exit code of one that has ended; the process ID of one that was started
	at   time.Duration // when, on the boot clock
	err  error         // why it could not be started
}

const (
	started = "started"
	stopped = "stopped" // by a signal: it may go on
	ended   = "ended"
)

// send writes a line, in one piece.
func (r report) send() {
	text := ""
	if r.err != nil {
		text = strings.Join(strings.Fields(r.err.Error()), " ")
	}
	_, _ = unix.Write(reportsFile, fmt.Appendf(nil, "%s %d %d %s\n", r.kind, r.code, bootTime(), text))
}

func parseReport(line string) (r report, ok bool) {
	n, err := fmt.Sscanf(line, "%s %d %d", &r.kind, &r.code, &r.at)
	if parts := strings.SplitN(line, " ", 4); len(parts) == 4 && parts[3] != "" {
		r.err = errors.New(parts[3])
	}
	return r, err == nil && n == 3
}
