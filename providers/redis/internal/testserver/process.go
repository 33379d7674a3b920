package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// process is a program that runs until it ends by itself or is killed.
type process struct {
	os  *os.Process
	end chan struct{} // closed when it has ended
}

// start runs a program. It dies with this process.
func start(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{end: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that
		// forked ends (prctl(2)), so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(p.end)
		err := cmd.Start()
		p.os = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	return p, <-started
}

// kill ends the process, also one that is paused, and waits for it.
func (p *process) kill() {
	_ = p.os.Kill() // fails only when it has ended
	<-p.end
}

// paused is nil when the process has stopped: the signal has been sent before it
// has. Without a /proc it trusts that the signal has arrived. The state follows the
// name in parentheses (proc_pid_stat(5)).
func (p *process) paused(context.Context) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.os.Pid))
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	if runtime.GOOS == "linux" && (err != nil || !strings.HasPrefix(string(after), " T")) {
		return errors.Join(errors.New("it still runs"), err)
	}
	return nil
}
