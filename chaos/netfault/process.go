package netfault

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// Process is a process that was started to be stopped and killed. It ends with
// this program: on Linux even if this program is killed. It is safe for
// concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait, once done is closed

	mu     sync.Mutex
	killed bool
}

// StartProcess starts a command, which must not have been started yet. Close ends it.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	orphansDie(cmd)
	started := make(chan error)
	go p.keep(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("netfault: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// keep starts the process and waits for it on one thread: Linux takes the end of
// the thread for that of the parent (golang.org/issue/27505).
func (p *Process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pause stops the process, with all its threads, until Resume: it is not told,
// and can't tell that time has passed but by looking at a clock.
func (p *Process) Pause() error { return p.signal(pause) }

// Resume lets the process go on.
func (p *Process) Resume() error { return p.signal(resume) }

func (p *Process) signal(send func(*exec.Cmd) error) error {
	if err := send(p.cmd); err != nil {
		return fmt.Errorf("netfault: process %d: %w", p.PID(), err)
	}
	return nil
}

// Kill ends the process at once, also a paused one: it has no chance to clean up.
// It returns when the process is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	select {
	case <-p.done: // of its own accord
	default:
		p.killed = true
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // fails if it is gone
	<-p.done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns how it ended: nil for exit
// status 0 and for one that Kill has ended. When ctx ends first it returns its cause.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	exit := (*exec.ExitError)(nil)
	if p.killed && errors.As(p.err, &exit) {
		return nil
	}
	return p.err
}

// Close kills the process if it still runs.
func (p *Process) Close() error {
	p.Kill()
	return nil
}
