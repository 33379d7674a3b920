//go:build unix

package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/descendants"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// IsGuard reports whether this process is a guard, or the process that becomes a command.
func IsGuard() bool {
	return os.Args[0] == innerName || os.Args[0] == outerName || os.Args[0] == stubName
}

func init() {
	if IsGuard() {
		// The command dies with the thread that forked it (PR_SET_PDEATHSIG, prctl(2)). This is
		// the main thread, which lives as long as the process.
		runtime.LockOSThread()
	}
}

// Guard is the main function of both guards: leasing starts the outer guard, which starts the inner guard, which
// starts the command. Each guard ends the command with all its descendants when the deadline passes, when
// leasing dies, or when the other guard dies. So it is enough if one of the three processes runs. On Linux each
// guard adopts the descendants whose parents have ended, so a process that leaves the command's group does not
// escape.
//
// A guard reads no lease and needs no network. It works even if leasing is stopped, killed or starved. If all
// three die at once, only PR_SET_PDEATHSIG is left, which ends only the command's first process, and only on
// Linux.
func Guard() {
	if os.Args[0] == stubName {
		stub()
	}
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exit.Failed)
	}
	o, err := parseGuardArgs(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exit.Failed)
	}
	for _, file := range []int{o.deadlines, o.inner, o.reports} {
		unix.CloseOnExec(file)
	}
	catchAll(o.ignored)
	descendants.AdoptOrphans(true)
	g := &guard{guardArgs: o, outer: os.Args[0] == outerName, childless: make(chan struct{})}
	g.read()
	g.check()
	if g.outer {
		err = g.startInner()
	} else {
		err = g.startCommand(os.Args[2], os.Args[3:])
	}
	g.reportStart(err)
	for {
		g.wait()
		g.check()
	}
}

// guard is one of the two guards, with its descendants.
type guard struct {
	guardArgs
	outer     bool
	group     int // the process group in which the command begins; 0 for none
	child     int // the inner guard, or the command
	deadline  time.Duration
	alarm     alarm
	ending    atomic.Bool
	childless chan struct{} // closed when no process is left
	once      sync.Once
}

// startInner starts the inner guard, which leads the command's group.
func (g *guard) startInner() error {
	var life [2]int // a pipe that closes when this process ends
	if err := unix.Pipe(life[:]); err != nil {
		return err
	}
	unix.CloseOnExec(life[0])
	unix.CloseOnExec(life[1])
	files, at := inheritFiles(uintptr(g.inner), uintptr(life[0]), uintptr(g.reports))
	o := g.guardArgs
	o.deadlines, o.inner, o.reports = at[0], at[1], at[2]
	child, err := syscall.ForkExec(self(), append([]string{innerName, o.String()}, os.Args[2:]...), &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: g.foreground},
	})
	g.group, g.child = child, child
	return errors.Join(err, unix.Close(g.inner), unix.Close(life[0]))
}

// startCommand starts the command in the group that this guard leads, and moves the guard out of the group: the
// kernel can then end the group with one signal, and the guard survives to end the other descendants.
func (g *guard) startCommand(path string, argv []string) error {
	g.group = unix.Getpid()
	command, args := path, argv
	if g.stub {
		command, args = self(), append([]string{stubName, strconv.FormatUint(uint64(g.ignored), 10), path}, argv...)
	}
	start := func() (err error) {
		g.child, err = syscall.ForkExec(command, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: diesWithGuard()})
		return err
	}
	err := start()
	if errors.Is(err, unix.ENOEXEC) {
		command, args = script(path, argv)
		err = start()
	}
	if unix.Setpgid(0, unix.Getppid()) != nil { // the outer guard is dead
		g.group = 0
	}
	return err
}

// script returns the command line for a file whose format the kernel does not know: a shell script, as in execvp(3).
func script(path string, argv []string) (command string, args []string) {
	return "/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...)
}

// stub becomes the command. It sets up what the guard can't: LISTEN_PID is known only once the process has started,
// and the guard can't ignore SIGCHLD.
func stub() {
	ignored, _ := strconv.ParseUint(os.Args[1], 10, 64)
	if signalSet(ignored).has(unix.SIGCHLD) {
		signal.Ignore(unix.SIGCHLD)
	}
	path, argv := os.Args[2], os.Args[3:]
	if os.Getenv(listenPID) != "" {
		_ = os.Setenv(listenPID, strconv.Itoa(os.Getpid()))
	}
	err := syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, unix.ENOEXEC) {
		command, args := script(path, argv)
		err = syscall.Exec(command, args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "leasing: %s: %v\n", output.Inert(path), err)
	os.Exit(cannotRun(err))
}

// cannotRun returns the exit code for a command that can't be run, the same as env(1).
func cannotRun(err error) int {
	if errors.Is(err, unix.ENOENT) {
		return exit.NotFound
	}
	return exit.NotExecutable
}

// reportStart sends a report about the start of the guard's child, and starts to watch the child.
func (g *guard) reportStart(err error) {
	switch {
	case err != nil && g.outer:
		report{kind: kindEnded, code: exit.Failed, err: err}.send(g.reports)
	case err != nil:
		report{kind: kindEnded, code: cannotRun(err), err: fmt.Errorf("%s: %w", os.Args[2], err)}.send(g.reports)
	case !g.outer:
		report{kind: kindStarted, code: g.child, group: unix.Getpid()}.send(g.reports)
	}
	if g.outer {
		_ = unix.Close(g.reports) // so that the pipe closes when the inner guard ends
	}
	go g.reap()
}

// reap waits for all children of the guard. The inner guard reports the end of the command, and the end of the command's
// last descendant. The outer guard ends the processes that the inner guard has left running. A guard without children
// has no descendants left.
func (g *guard) reap() {
	defer close(g.childless)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD
			g.reportAlone()
			return
		case pid != g.child || g.ending.Load():
		case g.outer:
			if !status.Stopped() {
				go g.finish()
			}
		case status.Stopped():
			report{kind: kindStopped, code: int(status.StopSignal())}.send(g.reports)
		case status.Signaled():
			report{kind: kindEnded, code: exit.Signal + int(status.Signal())}.send(g.reports)
		default:
			report{kind: kindEnded, code: status.ExitStatus()}.send(g.reports)
		}
	}
}

// reportAlone reports to leasing that no process is left. On a system where guards do not adopt orphans, this means only
// that the group has ended.
func (g *guard) reportAlone() {
	for !descendants.AdoptsOrphans && g.group > 0 && unix.Kill(-g.group, 0) != unix.ESRCH && !g.ending.Load() {
		<-time.After(10 * time.Millisecond)
	}
	if !g.outer {
		report{kind: kindAlone}.send(g.reports)
	}
}

// killDescendants kills all descendants, and returns when no process is left.
func (g *guard) killDescendants() {
	g.ending.Store(true)
	for pause := time.Duration(0); ; pause = min(pause+100*time.Microsecond, 5*time.Millisecond) {
		killAll(g.group, unix.Getpid(), g.child, 0)
		select {
		case <-g.childless:
			if g.group == 0 || unix.Kill(-g.group, 0) == unix.ESRCH {
				return
			}
			<-time.After(pause)
		case <-time.After(pause): // the next round follows soon, since a process may keep forking
		}
	}
}

// killAll sends KILL to a group, to the descendants of root except spared, and to the groups that they lead:
// one signal ends even a group that keeps forking.
func killAll(group, root, command, spared int) {
	if group > 0 {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
	descendants.Visit(root, command, func(pid int) bool {
		if pid != spared {
			_ = unix.Kill(pid, unix.SIGKILL)
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		return true
	})
}

// catchAll prevents signals to the group from ending the guard. They are caught, and not ignored, since the command
// inherits ignored signals. The signals that leasing ignores are ignored here too, so that the command inherits them,
// except for two that the Go runtime needs.
func catchAll(ignored signalSet) {
	caught := make(chan os.Signal, 1)
	for sig := unix.Signal(1); sig <= lastSignal; sig++ {
		switch {
		case sig == unix.SIGCHLD, sig == unix.SIGURG:
		case ignored.has(sig):
			signal.Ignore(sig)
		default:
			signal.Notify(caught, sig)
		}
	}
}

// read reads the latest deadline from the pipe. It blocks until there is a message.
func (g *guard) read() {
	var messages [512]byte
	n, err := unix.Read(g.deadlines, messages[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(g.deadlines, messages[:])
	}
	if n < 8 { // leasing is dead, or done
		g.finish()
	}
	g.deadline = time.Duration(binary.NativeEndian.Uint64(messages[n-8:]))
}

func (g *guard) check() {
	if bootTime() >= g.deadline {
		g.finish()
	}
}

// finish ends the command with all its descendants, and the guard. It does not return.
func (g *guard) finish() {
	g.once.Do(func() {
		if g.child != 0 {
			g.killDescendants()
		}
		os.Exit(0)
	})
	select {}
}

// wait waits until there is something to read, or the deadline may have passed, and reads all messages:
// after a pause only the latest deadline counts.
func (g *guard) wait() {
	files := []unix.PollFd{{Fd: int32(g.deadlines), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}}
	if !g.outer {
		files[2].Fd = int32(g.inner)
	}
	_, _ = unix.Poll(files, g.alarm.set(&files[1], g.deadline)) // a signal also ends the poll early
	if files[2].Revents != 0 {                                  // the outer guard is dead
		g.finish()
	}
	for {
		pending := []unix.PollFd{{Fd: int32(g.deadlines), Events: unix.POLLIN}}
		n, err := unix.Poll(pending, 0)
		switch {
		case n > 0:
			g.read()
		case !errors.Is(err, unix.EINTR):
			return
		}
	}
}
