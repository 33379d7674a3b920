//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
)

// terminal is a pseudo-terminal, with all its output so far.
type terminal struct {
	t       *testing.T
	control *os.File
	name    string
	mu      sync.Mutex
	text    strings.Builder
}

func newTerminal(t *testing.T) *terminal {
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { control.Close() })
	raw, err := control.SyscallConn()
	require.NoError(t, err)
	x := &terminal{t: t, control: control}
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
		x.name = fmt.Sprintf("/dev/pts/%d", n)
	}))
	go func() {
		for buffer := make([]byte, 1024); ; {
			n, err := control.Read(buffer)
			x.mu.Lock()
			x.text.Write(buffer[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

func (x *terminal) prints(text string) {
	x.t.Helper()
	eventually(x.t, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return strings.Contains(x.text.String(), text)
	}, "it prints "+text)
}

func (x *terminal) types(keys string) {
	_, err := x.control.WriteString(keys)
	require.NoError(x.t, err)
}

// start starts leasing in the way of a login shell.
func (x *terminal) start(p *testEnv, args ...string) *process {
	return x.startAs(p, asCommand(context.Background(), p.env(), args...))
}

// startAs starts a command as a login shell does: in a session of its own, on the terminal.
func (x *terminal) startAs(p *testEnv, cmd *exec.Cmd) *process {
	file, err := os.OpenFile(x.name, os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(x.t, err)
	defer file.Close()
	r := &process{Cmd: cmd, t: x.t}
	r.Stdin, r.Stdout, r.Stderr, r.Dir = file, file, file, p.folder
	r.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(x.t, r.Start())
	x.t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

// The command has the terminal: it reads its input, and receives Ctrl-Z and Ctrl-C.
func TestRunOnSQLiteOnATerminal(t *testing.T) {
	t.Parallel()
	x, p := newTerminal(t), newTestEnv(t)
	r := x.start(p, "run", "name", "--", "sh", "-c", `echo ready; read a; echo "first $a"; read b; echo "second $b"; sleep 1000`)
	x.prints("ready")
	x.types("one\n")
	x.prints("first one")
	x.types("\x1a") // after Ctrl-Z leasing stops, too, so that a shell notices the stop
	eventually(t, func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.Pid))
		return strings.Contains(string(status), "State:\tT")
	}, "leasing stops")
	r.signal(unix.SIGCONT) // fg
	<-time.After(50 * time.Millisecond)
	x.types("two\n")
	x.prints("second two")
	ended := make(chan int)
	go func() { ended <- r.code() }()
	for {
		x.types("\x03") // repeatedly, since a shell that is about to fork may lose a signal
		select {
		case code := <-ended:
			require.Equal(t, 128+2, code)
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Ctrl-Z returns to the shell even while leasing waits for its lease, and fg continues the wait.
func TestRunOnSQLiteWaitsOnATerminal(t *testing.T) {
	t.Parallel()
	x, p := newTerminal(t), newTestEnv(t)
	holder := p.start("run", "name", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	shell := asCommand(context.Background(), p.env())
	shell.Path, shell.Args = "/bin/sh", []string{
		"sh", "-mc", `"$0" run --owner waiter --wait forever name -- echo 'got it'; echo "stopped: $?"; fg`, "/proc/" + itoa(os.Getpid()) + "/exe",
	}
	r := x.startAs(p, shell)
	p.waits("waiter", "name")
	x.types("\x1a")
	x.prints("stopped: " + itoa(128+int(unix.SIGTSTP)))
	holder.signal(unix.SIGTERM)
	x.prints("got it")
	require.Zero(t, r.code())
}

// The command break asks for confirmation: it ends the lease only after its name was typed.
func TestBreakOnSQLiteAsks(t *testing.T) {
	t.Parallel()
	p := newTestEnv(t)
	holder := p.start("run", "--ttl", "3s", "name", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.awaitOutput("ready")
	for _, c := range []struct {
		types, prints string
		code          int
	}{{"other\n", "not ended", exit.No}, {"name\n", "name is free", 0}} {
		x := newTerminal(t)
		r := x.start(p, "break", "name")
		x.prints("Type its name")
		x.types(c.types)
		x.prints(c.prints)
		require.Equal(t, c.code, r.code())
	}
	require.Equal(t, exit.Lost, holder.code())
}
