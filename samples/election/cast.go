//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// cast is the worker processes. Its methods are for one goroutine.
type cast struct {
	place   place
	all     []*exec.Cmd          // that were ever started
	workers map[string]*exec.Cmd // those that have not been sent away, by name
	// reports are those of all workers, and the exits of their processes.
	reports chan report
	over    chan struct{} // closed when nobody reads reports any more
	readers sync.WaitGroup
}

func newCast(p place) *cast {
	return &cast{place: p, workers: map[string]*exec.Cmd{}, reports: make(chan report), over: make(chan struct{})}
}

// start starts a worker: this program once more.
func (c *cast) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := json.Marshal(worker{Name: name, Place: c.place})
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = unlessOrphaned()
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the worker that we are gone
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.all, c.workers[name] = append(c.all, cmd), cmd
	c.readers.Go(func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			var r report
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				r = report{Kind: failed, Worker: name, At: hostTime(), Text: fmt.Sprintf("said %q", lines.Text())}
			}
			c.pass(r)
		}
		_ = cmd.Wait() // ProcessState says more
		c.pass(report{Kind: exited, Worker: name, At: hostTime(), Text: cmd.ProcessState.String()})
	})
	return nil
}

func (c *cast) pass(r report) {
	select {
	case c.reports <- r:
	case <-c.over:
	}
}

// signal sends a signal to a worker and returns when. A worker that was sent
// away no longer counts as one that should live.
func (c *cast) signal(name string, signal syscall.Signal) (time.Duration, error) {
	cmd := c.workers[name]
	if cmd == nil {
		return 0, fmt.Errorf("%s is not there to get %v", name, signal)
	}
	if signal == syscall.SIGKILL || signal == syscall.SIGTERM {
		delete(c.workers, name)
	}
	at := hostTime()
	return at, cmd.Process.Signal(signal)
}

// exit judges the exit of a worker: was it sent away, and did it go in order?
func (c *cast) exit(r report) error {
	if c.workers[r.Worker] != nil || r.Text != "exit status 0" && r.Text != "signal: killed" {
		return fmt.Errorf("%s has died: %s", r.Worker, r.Text)
	}
	return nil
}

// end kills whoever is left, paused ones too, and waits until all are gone.
func (c *cast) end() {
	for _, cmd := range c.all {
		_ = cmd.Process.Kill() // fails for those that are gone
	}
	close(c.over)
	c.readers.Wait()
}
