package azuritetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// patience is how long a start may take on a machine that is busy with much else.
// Usually it takes a second.
const patience = time.Minute

var (
	errPortTaken = errors.New("another process has the port")
	errEnded     = errors.New("the server has ended")
)

// process is a program that runs until it ends by itself or is killed.
type process struct {
	os  *os.Process
	log string        // the file of what it prints
	end chan struct{} // closed when it has ended
}

// startProcess runs a program. It gets no signals meant for the tests, such as
// Ctrl-C's, and dies with their process.
func startProcess(path string, args, environment []string, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...) //nolint:noctx // it ends by Kill, whose caller waits for it
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = orphanAttr()
	p := &process{log: log, end: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that
		// forked ends (prctl(2)), so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(p.end)
		defer out.Close() //nolint:errcheck // nobody can use the news
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

// tail is the end of what the process has printed.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

// ready waits until the process says that it has the port.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.tail(), "successfully listens") {
		select {
		case <-tick.C:
		case <-p.end:
			if strings.Contains(p.tail(), "EADDRINUSE") {
				return errPortTaken
			}
			return fmt.Errorf("%w; it printed:\n%s", errEnded, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%w; it printed:\n%s", ctx.Err(), p.tail())
		}
	}
	return nil
}
