package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/chaos/netfault"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// Workers are the worker processes. Its methods are for one goroutine.
type Workers struct {
	scenario string
	place    place.Place
	workers  map[string]*process
	running  int
	reports  chan Report
	over     chan struct{} // closed when nobody reads reports any more
	readers  sync.WaitGroup
}

// process is a worker's.
type process struct {
	*netfault.Process
	cmd             *exec.Cmd
	input           io.WriteCloser
	killed, stopped bool
}

func newWorkers(scenario string, p place.Place) *Workers {
	return &Workers{scenario: scenario, place: p, workers: map[string]*process{}, reports: make(chan Report), over: make(chan struct{})}
}

// Start starts a worker: this program once more. The argument is Worker.Arg.
func (c *Workers) Start(name, arg string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{"Name": name, "Arg": arg, "Scenario": c.scenario, "Place": c.place})
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe() // its end tells the worker that we are gone
	if err != nil {
		return err
	}
	output, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = writer
	started, err := netfault.StartProcess(cmd)
	_ = writer.Close() // the process has its own
	if err != nil {
		return errors.Join(err, output.Close())
	}
	w := &process{Process: started, cmd: cmd, input: input}
	c.workers[name] = w
	c.running++
	c.readers.Go(func() { c.read(name, w, output) })
	return nil
}

// read passes on what a worker reports, and the end of its process.
func (c *Workers) read(name string, w *process, output io.ReadCloser) {
	defer func() { _ = output.Close() }()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = Report{Worker: name, Kind: Failed, At: time.Now(), Text: fmt.Sprintf("said %q", lines.Text())}
		}
		c.pass(r)
	}
	<-w.Done()
	c.pass(Report{Worker: name, Kind: Exited, At: time.Now(), Text: "is gone: " + w.cmd.ProcessState.String()})
}

func (c *Workers) pass(r Report) {
	select {
	case c.reports <- r:
	case <-c.over:
	}
}

// Send puts a report of the parent among those of the workers. It may be
// called from any goroutine, and returns when Next has taken it, or ctx ends.
func (c *Workers) Send(ctx context.Context, r Report) {
	r.At = time.Now()
	select {
	case c.reports <- r:
	case <-ctx.Done():
	}
}

// Running is how many workers have not ended yet.
func (c *Workers) Running() int { return c.running }

// Next waits for the next report. A worker that fails, or ends otherwise than
// in order or by Kill, is an error.
func (c *Workers) Next(ctx context.Context) (Report, error) {
	select {
	case r := <-c.reports:
		if r.Kind == Exited {
			c.running--
		}
		if r.Kind == Failed || r.Kind == Exited && r.Text != "is gone: exit status 0" && !c.workers[r.Worker].killed {
			return r, fmt.Errorf("%s: %s", r.Worker, r.Text)
		}
		return r, nil
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
}

// Kill ends a worker's process at once: it has no chance to release anything.
func (c *Workers) Kill(name string) {
	c.workers[name].killed = true
	c.workers[name].Kill()
}

// Stop asks a worker to end in order.
func (c *Workers) Stop(name string) error {
	c.workers[name].stopped = true
	return c.workers[name].input.Close()
}

// Pause stops a worker's process, with all its threads, until Resume.
func (c *Workers) Pause(name string) error { return c.workers[name].Pause() }

// Resume lets a paused worker go on. It can't tell that time has passed but by
// looking at a clock.
func (c *Workers) Resume(name string) error { return c.workers[name].Resume() }

// StopAll asks all workers to end in order that were neither killed nor stopped.
func (c *Workers) StopAll() (err error) {
	for name, w := range c.workers {
		if !w.killed && !w.stopped {
			err = errors.Join(err, c.Stop(name))
		}
	}
	return err
}

// Continue lets a worker that waits go on. One that was asked to end does so by itself.
func (c *Workers) Continue(name string) error {
	if c.workers[name].stopped {
		return nil
	}
	_, err := io.WriteString(c.workers[name].input, "go on\n")
	return err
}

// end kills the workers that are left, paused ones too, and waits until all are gone.
func (c *Workers) end() {
	close(c.over)
	for _, w := range c.workers {
		w.Kill()
	}
	c.readers.Wait()
}
