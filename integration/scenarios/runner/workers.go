package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// process is the process of a worker.
type process struct {
	*servertest.Process
	cmd   *exec.Cmd
	input io.WriteCloser

	killed, stopped, gone bool
}

// Start starts a worker, which is a process of the sample, with args after the runner's flags.
func (s *Runner) Start(ctx context.Context, name string, args ...string) error {
	cmd := exec.Command(s.program, slices.Concat(s.flags, []string{"-owner", name}, args)...)
	cmd.Env = append(os.Environ(), "LEASING_URL="+s.Place.Leases, "LEASING_DATA="+s.Place.Data) // not as flags: URLs may contain passwords
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe() // the worker reads end-of-file when this process has ended
	if err != nil {
		return err
	}
	output, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = writer
	started, err := servertest.StartProcess(cmd)
	_ = writer.Close() // the process has its own copy
	if err != nil {
		return errors.Join(err, output.Close())
	}
	w := &process{Process: started, cmd: cmd, input: input}
	s.workers[name] = w
	s.running++
	s.readers.Go(func() { s.read(ctx, name, w, output) })
	return nil
}

// read forwards a worker's reports, and then reports the end of its process.
func (s *Runner) read(ctx context.Context, name string, w *process, output io.ReadCloser) {
	defer func() { _ = output.Close() }()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		s.Send(ctx, parse(name, lines.Bytes()))
	}
	<-w.Done()
	s.Send(ctx, Report{Worker: name, Kind: Exited, At: time.Now(), Text: Exited + ": " + w.cmd.ProcessState.String()})
}

// Send adds a report of the parent to those of the workers. It may be called from any goroutine,
// and returns when Next has received the report, or ctx ends.
func (s *Runner) Send(ctx context.Context, r Report) {
	select {
	case s.reports <- r:
	case <-ctx.Done():
	}
}

// Running returns the number of workers that have not ended yet.
func (s *Runner) Running() int { return s.running }

// Next waits for the next report. It returns an error if a worker has failed, has ended neither cleanly nor by Kill, or could not
// be stopped, paused, resumed or continued.
func (s *Runner) Next(ctx context.Context) (Report, error) {
	if s.err != nil {
		return Report{}, s.err
	}
	select {
	case r := <-s.reports:
		if r.Kind == Exited {
			s.running--
			s.workers[r.Worker].gone = true
		}
		if r.Kind == Failed || r.Kind == Exited && r.Text != Exited+": exit status 0" && !s.workers[r.Worker].killed {
			return r, fmt.Errorf("%s: %s", r.Worker, r.Text)
		}
		return r, nil
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
}

// Kill ends a worker's process at once: it has no chance to release anything.
func (s *Runner) Kill(name string) {
	s.workers[name].killed = true
	s.workers[name].Kill()
}

// Stop asks a worker to shut down cleanly.
func (s *Runner) Stop(name string) {
	s.workers[name].stopped = true
	s.err = errors.Join(s.err, s.workers[name].input.Close())
}

// Pause stops a worker's process, with all its threads, until Resume.
func (s *Runner) Pause(name string) { s.err = errors.Join(s.err, s.workers[name].Pause()) }

// Resume lets a paused worker continue. Only a clock can show the worker that time has passed.
func (s *Runner) Resume(name string) { s.err = errors.Join(s.err, s.workers[name].Resume()) }

// StopAll asks all workers that have not been killed or stopped, and have not ended, to shut down cleanly.
func (s *Runner) StopAll() {
	for name, w := range s.workers {
		if !w.killed && !w.stopped && !w.gone {
			s.Stop(name)
		}
	}
}

// Continue lets a waiting worker go on. It does nothing for a worker that was stopped or killed, or has ended.
func (s *Runner) Continue(name string) {
	if w := s.workers[name]; w != nil && !w.stopped && !w.killed && !w.gone {
		_, err := io.WriteString(w.input, "go on\n")
		s.err = errors.Join(s.err, err)
	}
}

// end kills the workers that are left, paused ones too, and waits until all are gone.
func (s *Runner) end() {
	for _, w := range s.workers {
		w.Kill()
	}
	s.readers.Wait()
}
