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

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/kin"
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
// starts the command. Each guard ends the command with all its descendants when the deadline comes, when leasing
// is dead, or when the other guard is dead. So it is enough that one of the three processes runs. On Linux each
// guard adopts the descendants whose parents have ended, so a process that leaves the command's group does not
// escape.
//
// A guard reads no lease and needs no network. It goes on if leasing is stopped, killed or starved. If all
// three die at once, only PR_SET_PDEATHSIG is left, which ends the command's first process alone, and only on
// Linux.
func Guard() {
	if os.Args[0] == stubName {
		stub()
	}
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exit.Failed)
	}
	o, err := parseOrders(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "leasing: the guard is started by leasing run")
		os.Exit(exit.Failed)
	}
	for _, file := range []int{o.deadlines, o.inner, o.reports} {
		unix.CloseOnExec(file)
	}
	catchAll(o.ignored)
	kin.Adopt(true)
	g := &warden{orders: o, outer: os.Args[0] == outerName, gone: make(chan struct{})}
	g.read()
	g.check()
	if g.outer {
		err = g.startInner()
	} else {
		err = g.startCommand(os.Args[2], os.Args[3:])
	}
	g.began(err)
	for {
		g.wait()
		g.check()
	}
}

// warden is one of the two guards, with its descendants.
type warden struct {
	orders
	outer  bool
	group  int // the process group in which the command begins; 0 for none
	child  int // the inner guard, or the command
	until  time.Duration
	alarm  alarm
	ending atomic.Bool
	gone   chan struct{} // closed when no process is left
	once   sync.Once
}

// startInner starts the inner guard, which leads the command's group.
func (w *warden) startInner() error {
	var life [2]int // ends with this process
	if err := unix.Pipe(life[:]); err != nil {
		return err
	}
	unix.CloseOnExec(life[0])
	unix.CloseOnExec(life[1])
	files, at := passed(uintptr(w.inner), uintptr(life[0]), uintptr(w.reports))
	o := w.orders
	o.deadlines, o.inner, o.reports = at[0], at[1], at[2]
	child, err := syscall.ForkExec(self(), append([]string{innerName, o.String()}, os.Args[2:]...), &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: w.foreground},
	})
	w.group, w.child = child, child
	return errors.Join(err, unix.Close(w.inner), unix.Close(life[0]))
}

// startCommand starts the command in the group that this guard leads, and takes the guard out of the group: the
// kernel can then end the group with one signal, and the guard survives to end the other descendants.
func (w *warden) startCommand(path string, argv []string) error {
	w.group = unix.Getpid()
	command, args := path, argv
	if w.stub {
		command, args = self(), append([]string{stubName, strconv.FormatUint(uint64(w.ignored), 10), path}, argv...)
	}
	start := func() (err error) {
		w.child, err = syscall.ForkExec(command, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: diesWithGuard()})
		return err
	}
	err := start()
	if errors.Is(err, unix.ENOEXEC) {
		command, args = script(path, argv)
		err = start()
	}
	if unix.Setpgid(0, unix.Getppid()) != nil { // the outer guard is dead
		w.group = 0
	}
	return err
}

// script returns the command line for a file that has no format of its own, as in execvp(3).
func script(path string, argv []string) (command string, args []string) {
	return "/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...)
}

// stub becomes the command. A process knows its ID only once it was started, and a guard can't ignore SIGCHLD.
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

// began reports whether the guard's child was started, and watches the child from then on.
func (w *warden) began(err error) {
	switch {
	case err != nil && w.outer:
		report{kind: ended, code: exit.Failed, err: err}.send(w.reports)
	case err != nil:
		report{kind: ended, code: cannotRun(err), err: fmt.Errorf("%s: %w", os.Args[2], err)}.send(w.reports)
	case !w.outer:
		report{kind: started, code: w.child, group: unix.Getpid()}.send(w.reports)
	}
	if w.outer {
		_ = unix.Close(w.reports) // so that the pipe ends with the inner guard
	}
	go w.reap()
}

// reap waits for all children of the guard. The inner guard reports the end of the command, and the end of the command's
// last descendant. The outer guard ends the processes that the inner guard has left. A guard without a child has no
// descendant.
func (w *warden) reap() {
	defer close(w.gone)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD
			w.alone()
			return
		case pid != w.child || w.ending.Load():
		case w.outer:
			if !status.Stopped() {
				go w.finish()
			}
		case status.Stopped():
			report{kind: stopped, code: int(status.StopSignal())}.send(w.reports)
		case status.Signaled():
			report{kind: ended, code: exit.Signal + int(status.Signal())}.send(w.reports)
		default:
			report{kind: ended, code: status.ExitStatus()}.send(w.reports)
		}
	}
}

// alone reports to leasing that no process is left. On a system without adoption of orphans it only waits for the end
// of the group.
func (w *warden) alone() {
	for !kin.Adopts && w.group > 0 && unix.Kill(-w.group, 0) != unix.ESRCH && !w.ending.Load() {
		<-time.After(10 * time.Millisecond)
	}
	if !w.outer {
		report{kind: alone}.send(w.reports)
	}
}

// end kills all descendants, and returns when no process is left.
func (w *warden) end() {
	w.ending.Store(true)
	for pause := time.Duration(0); ; pause = min(pause+100*time.Microsecond, 5*time.Millisecond) {
		killAll(w.group, unix.Getpid(), w.child, 0)
		select {
		case <-w.gone:
			if w.group == 0 || unix.Kill(-w.group, 0) == unix.ESRCH {
				return
			}
			<-time.After(pause)
		case <-time.After(pause): // the next round follows soon, since a process may fork all the time
		}
	}
}

// killAll sends KILL to a group, to the descendants of a process except one, and to the groups that they lead:
// one signal ends a group that forks all the time.
func killAll(group, root, command, spared int) {
	if group > 0 {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
	kin.Visit(root, command, func(pid int) bool {
		if pid != spared {
			_ = unix.Kill(pid, unix.SIGKILL)
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		return true
	})
}

// catchAll keeps the signals that the group gets from ending the guard. They are caught, and not ignored, since the
// command inherits ignored signals. The signals that leasing ignores are ignored here too, so that the command inherits
// them, except for two that the Go runtime needs.
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
func (w *warden) read() {
	var messages [512]byte
	n, err := unix.Read(w.deadlines, messages[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(w.deadlines, messages[:])
	}
	if n < 8 { // leasing is dead, or done
		w.finish()
	}
	w.until = time.Duration(binary.NativeEndian.Uint64(messages[n-8:]))
}

func (w *warden) check() {
	if bootTime() >= w.until {
		w.finish()
	}
}

// finish ends the command with all its descendants, and the guard. It does not return.
func (w *warden) finish() {
	w.once.Do(func() {
		if w.child != 0 {
			w.end()
		}
		os.Exit(0)
	})
	select {}
}

// wait waits until there is something to read, or the deadline may have come, and reads all messages: after
// a pause only the latest deadline counts.
func (w *warden) wait() {
	files := []unix.PollFd{{Fd: int32(w.deadlines), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}}
	if !w.outer {
		files[2].Fd = int32(w.inner)
	}
	_, _ = unix.Poll(files, w.alarm.set(&files[1], w.until)) // a signal also ends the poll early
	if files[2].Revents != 0 {                               // the outer guard is dead
		w.finish()
	}
	for {
		pending := []unix.PollFd{{Fd: int32(w.deadlines), Events: unix.POLLIN}}
		n, err := unix.Poll(pending, 0)
		switch {
		case n > 0:
			w.read()
		case !errors.Is(err, unix.EINTR):
			return
		}
	}
}
