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

func isGuard() bool { return os.Args[0] == guardName && len(os.Args) > 1 }

func init() {
	if isGuard() {
		// The command dies with the thread that forked it (PR_SET_PDEATHSIG, prctl(2)). This is
		// the main thread, which lives as long as the process.
		runtime.LockOSThread()
	}
}

// guard is the process that leads the command's group. It starts the command, and kills the group,
// itself included, when the deadline comes or the pipe of deadlines ends, since leasing
// is dead then. It does not end by itself: its process ID names the group.
//
// It reads no lease and needs no network. leasing being stopped, killed or starved does not concern
// it. What ends both at once is left to PR_SET_PDEATHSIG, and so concerns the command's first
// process alone, and only on Linux.
func guard() {
	if unix.Getpgrp() != unix.Getpid() {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exitFailed)
	}
	unix.CloseOnExec(deadlineFile)
	unix.CloseOnExec(reportsFile)
	catchAll()
	g := &deadlines{}
	g.read()
	g.check()
	pid, err := syscall.ForkExec(os.Args[1], os.Args[1:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: diesWithGuard(),
	})
	if err != nil {
		code := exitNotExecutable
		if errors.Is(err, unix.ENOENT) {
			code = exitNotFound
		}
		report{kind: ended, code: code, err: fmt.Errorf("%s: %w", os.Args[1], err)}.send()
	} else {
		report{kind: started}.send()
		go reportEnd(pid)
	}
	for {
		g.wait()
		g.check()
	}
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

// deadlines is the pipe of deadlines, and the latest of them.
type deadlines struct {
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
	if n < 8 { // leasing is dead
		killGroup()
	}
	g.until = time.Duration(binary.NativeEndian.Uint64(messages[n-8:]))
}

func (g *deadlines) check() {
	if bootTime() >= g.until {
		killGroup()
	}
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

// killGroup ends the guard and its whole group: one signal, so that nothing of it forks away.
func killGroup() {
	for {
		_ = unix.Kill(0, unix.SIGKILL)
	}
}

// reportEnd waits for the command, and reports how it ended.
func reportEnd(pid int) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			report{kind: ended, code: exitFailed, err: err}.send()
			return
		case status.Stopped():
			report{kind: stopped}.send()
		case status.Signaled():
			report{kind: ended, code: exitSignal + int(status.Signal())}.send()
			return
		default:
			report{kind: ended, code: status.ExitStatus()}.send()
			return
		}
	}
}

// report is what the guard tells about the command.
type report struct {
	kind string
	code int           // the exit code of one that has ended
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
