package show

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// Crew is the worker processes. Its methods are for one goroutine.
type Crew struct {
	scenario string
	place    place.Place
	all      []*exec.Cmd // that were ever started
	workers  map[string]*member
	running  int
	reports  chan Report
	over     chan struct{} // closed when nobody reads reports any more
	readers  sync.WaitGroup
}

type member struct {
	cmd               *exec.Cmd
	cues              io.WriteCloser
	killed, dismissed bool
}

func newCrew(scenario string, p place.Place) *Crew {
	return &Crew{scenario: scenario, place: p, workers: map[string]*member{}, reports: make(chan Report), over: make(chan struct{})}
}

// Start starts a worker: this program once more. The argument is Worker.Arg.
func (c *Crew) Start(name, arg string) error {
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
	cmd.SysProcAttr = unlessOrphaned()
	cues, err := cmd.StdinPipe() // its end tells the worker that we are gone
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
	c.all, c.workers[name] = append(c.all, cmd), &member{cmd: cmd, cues: cues}
	c.running++
	c.readers.Go(func() { c.read(name, cmd, output) })
	return nil
}

// read passes on what a worker reports, and the end of its process.
func (c *Crew) read(name string, cmd *exec.Cmd, output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = Report{Worker: name, Kind: Failed, At: time.Now(), Text: fmt.Sprintf("said %q", lines.Text())}
		}
		c.pass(r)
	}
	_ = cmd.Wait() // ProcessState says more
	c.pass(Report{Worker: name, Kind: Exited, At: time.Now(), Text: "is gone: " + cmd.ProcessState.String()})
}

func (c *Crew) pass(r Report) {
	select {
	case c.reports <- r:
	case <-c.over:
	}
}

// Tell puts a report of the play's own among those of the workers. It may be
// called from any goroutine, and returns when Next has taken it, or ctx ends.
func (c *Crew) Tell(ctx context.Context, r Report) {
	r.At = time.Now()
	select {
	case c.reports <- r:
	case <-ctx.Done():
	}
}

// Running is how many workers have not ended yet.
func (c *Crew) Running() int { return c.running }

// Next waits for the next report. A worker that fails, or ends otherwise than
// in order or by Kill, is an error.
func (c *Crew) Next(ctx context.Context) (Report, error) {
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
func (c *Crew) Kill(name string) error {
	c.workers[name].killed = true
	return c.workers[name].cmd.Process.Kill()
}

// Dismiss asks a worker to end in order.
func (c *Crew) Dismiss(name string) error {
	c.workers[name].dismissed = true
	return c.workers[name].cues.Close()
}

// Pause stops a worker's process, with all its threads, until Resume.
func (c *Crew) Pause(name string) error { return pause(c.workers[name].cmd.Process) }

// Resume lets a paused worker go on. It can't tell that time has passed but by
// looking at a clock.
func (c *Crew) Resume(name string) error { return resume(c.workers[name].cmd.Process) }

// Alive lists the workers that were neither killed nor dismissed.
func (c *Crew) Alive() (names []string) {
	for name, w := range c.workers {
		if !w.killed && !w.dismissed {
			names = append(names, name)
		}
	}
	return names
}

// Cue lets a worker go on that waits for its cue.
func (c *Crew) Cue(name string) error {
	_, err := io.WriteString(c.workers[name].cues, "go on\n")
	return err
}

// end kills whoever is left, paused ones too, and waits until all are gone.
func (c *Crew) end() {
	for _, cmd := range c.all {
		_ = cmd.Process.Kill() // fails for those that are gone
	}
	close(c.over)
	c.readers.Wait()
}
