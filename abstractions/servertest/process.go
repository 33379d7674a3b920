package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
)

// Process is a program that runs until it ends by itself or is killed.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{}
	err    error       // the program's error, once done is closed
	killed atomic.Bool // Kill was called before the program had ended by itself
}

// StartProcess starts a command, which must not have been started yet. On Linux the process gets no
// signals that are meant for this program, such as that of Ctrl-C. Close ends the process.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	dieWithParent(cmd)
	started := make(chan error)
	go func() {
		// Linux treats the end of the forking thread as the end of the parent (prctl(2),
		// golang.org/issue/27505), so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("servertest: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pause stops the process, with all its threads, until Resume. The process gets no
// notice, and can detect the pause only by its clock. Pause returns when the process has stopped
// or, on systems other than Linux, when the signal was sent. Only Unix supports Pause.
func (p *Process) Pause() error {
	err := pause(p.cmd)
	if err == nil && runtime.GOOS == "linux" {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		err = until(ctx, p.done, p.stopped)
	}
	return p.describe(err)
}

// Resume continues the process, which then handles the requests that have arrived in the meantime.
func (p *Process) Resume() error { return p.describe(resume(p.cmd)) }

func (p *Process) describe(err error) error {
	if err != nil {
		err = fmt.Errorf("servertest: process %d: %w", p.PID(), err)
	}
	return err
}

// stopped returns nil when all threads of the process have stopped, which takes a moment after the signal. In a
// stat file the state follows the name, which is in parentheses (proc_pid_stat(5)).
func (p *Process) stopped(context.Context) error {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if after := string(stat[strings.LastIndexByte(string(stat), ')')+1:]); err == nil && !strings.HasPrefix(after, " T") {
			return errors.New("a thread still runs")
		}
	}
	if len(stats) == 0 {
		return errors.New("it has ended, or there is no /proc")
	}
	return nil
}

// Kill ends the process at once, even if it is paused, without a chance to clean up. Kill returns
// when the process is gone.
func (p *Process) Kill() {
	select {
	case <-p.done: // the process ended by itself
	default:
		p.killed.Store(true)
	}
	_ = p.cmd.Process.Kill() // fails only if the process has ended
	<-p.done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns its error: nil for exit status 0 and after
// Kill. If ctx ends first, Wait returns the cause of ctx.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); p.killed.Load() && errors.As(p.err, &exit) {
		return nil
	}
	return p.err
}

// Close kills the process if it is still running.
func (p *Process) Close() error {
	p.Kill()
	return nil
}
