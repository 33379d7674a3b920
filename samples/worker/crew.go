package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// programVariable tells a test's program that it is to be this one.
const programVariable = "LEASING_SAMPLE_WORKER_PROGRAM"

// crew is processes of this program. Its methods are for one goroutine.
type crew struct {
	args    []string // of each process
	env     []string
	all     map[string]*exec.Cmd
	stdin   map[string]io.Closer
	running map[string]bool
	reports chan report
	over    chan struct{} // closed when nobody reads reports any more
	readers sync.WaitGroup
}

func newCrew(args, env []string) *crew {
	return &crew{
		args: args, env: env, all: map[string]*exec.Cmd{}, stdin: map[string]io.Closer{}, running: map[string]bool{},
		reports: make(chan report), over: make(chan struct{}),
	}
}

// start starts a worker.
func (c *crew) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append([]string{"-owner", name, "-output", outputJSON, "-stdin"}, c.args...)...)
	cmd.Env = append(append(os.Environ(), programVariable+"=1"), c.env...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe() // its end tells the worker that we are gone
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.all[name], c.stdin[name], c.running[name] = cmd, input, true
	c.readers.Go(func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var r report
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				r = report{Time: time.Now(), Worker: name, Kind: troubled, Text: fmt.Sprintf("it said %q", lines.Text())}
			}
			c.pass(r)
		}
		_ = cmd.Wait() // ProcessState says more
		c.pass(report{Time: time.Now(), Worker: name, Kind: exited, Text: cmd.ProcessState.String()})
	})
	return nil
}

func (c *crew) pass(r report) {
	select {
	case c.reports <- r:
	case <-c.over:
	}
}

// next waits for the next report.
func (c *crew) next(ctx context.Context) (report, error) {
	select {
	case r := <-c.reports:
		if r.Kind == exited {
			delete(c.running, r.Worker)
		}
		return r, nil
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
}

// kill ends a worker's process at once: it has no chance to release anything.
func (c *crew) kill(name string) error { return c.all[name].Process.Kill() }

// stop asks a worker to end in order.
func (c *crew) stop(name string) error { return c.all[name].Process.Signal(syscall.SIGTERM) }

// end kills whoever is left and waits until all are gone.
func (c *crew) end() {
	for _, cmd := range c.all {
		_ = cmd.Process.Kill() // fails for those that are gone
	}
	close(c.over)
	c.readers.Wait()
}
