package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"
)

// process is a worker process, as the run sees it.
type process struct {
	r      *run
	index  int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *lines
	killed atomic.Bool // by us
	ended  chan struct{}
	ready  bool // it is a worker; this and the following once ended
	err    error
	found  []Violation
}

// prepareProcesses starts the workers' processes.
func (r *run) prepareProcesses() error {
	r.clock.base = time.Now()
	for i := range r.options.Workers {
		p, err := r.spawn(i)
		if err != nil {
			return err
		}
		r.crew = append(r.crew, &member{index: i, player: p})
	}
	return nil
}

// spawn starts worker process number index.
func (r *run) spawn(index int) (*process, error) {
	cmd := r.options.Process()
	cmd.Env = append(cmd.Environ(), workerVariable+"=1")
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{r: r, index: index, cmd: cmd, in: in, out: newLines(in), ended: make(chan struct{})}
	if err := p.start(from); err != nil {
		return nil, fmt.Errorf("start worker process %d: %w", index, err)
	}
	return p, nil
}

// job is what the process is to do.
func (p *process) job() *job {
	r, o := p.r, p.r.options
	return &job{
		Index: p.index, Epoch: r.clock.epoch(), Run: r.started.run, Names: r.started.names, Seed: o.Seed,
		Plan: o.Plan, TTL: o.TTL, Patience: o.Patience, Manager: numbers(o.Manager),
	}
}

// start starts the process and listens to it on one thread: Linux takes the end of the
// thread for that of the parent (golang.org/issue/27505).
func (p *process) start(from io.Reader) error {
	orphansDie(p.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err == nil {
			p.out.say(order{Job: p.job()}) // before any other
		}
		started <- err
		if err == nil {
			p.listen(from)
		}
	}()
	return <-started
}

// listen takes in what the process says, until it ends.
func (p *process) listen(from io.Reader) {
	defer close(p.ended)
	var said error
	for notices := json.NewDecoder(from); ; {
		var n notice
		if notices.Decode(&n) != nil {
			break
		}
		switch {
		case n.Ready:
			p.ready = true
		case n.Entry != nil:
			p.r.book.enter(*n.Entry)
		case n.Fill != nil:
			p.r.register.fill(n.Fill.Place, n.Fill.Write)
		case n.Write != nil:
			p.write(*n.Write)
		case n.Violation != nil:
			p.found = append(p.found, *n.Violation)
		case n.Error != "":
			said = errors.New(n.Error)
		}
	}
	p.err = errors.Join(said, p.cmd.Wait())
}

func (p *process) write(w request) {
	ctx, cancel := context.WithTimeout(context.Background(), p.r.options.Patience)
	defer cancel()
	place, accepted, err := p.r.register.write(ctx, w.Name, w.Token)
	p.out.say(order{Wrote: &response{w.Request, place, accepted, err != nil}})
}

// run waits for the end of the process, which it asks for when ctx ends.
func (p *process) run(ctx context.Context) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.out.say(order{Stop: true})
		<-p.ended
	}
	switch {
	case p.killed.Load():
		return nil
	case p.err == nil && !p.ready:
		return errors.New("its process has not called MainOfWorker")
	case p.err == nil && ctx.Err() == nil:
		return errors.New("its process ended by itself")
	}
	return p.err
}

func (p *process) calm() { p.out.say(order{Calm: true}) }

// kill ends the process at once, and what it held in the record.
func (p *process) kill() {
	at := p.r.now()
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.ended
	p.r.book.killed(p.index, at)
}

// Close ends the process if it still runs.
func (p *process) Close() error {
	_ = p.in.Close() // a worker that nobody tells anything ends
	select {
	case <-p.ended:
	default:
		p.kill()
	}
	return nil
}

// mistreat stops and kills worker processes, one at a time, until until ends. The
// channel tells when that is over. Workers work until ctx ends.
func (r *run) mistreat(ctx, until context.Context) <-chan error {
	over := make(chan error, 1)
	if r.options.Process == nil {
		over <- nil
		return over
	}
	go func() { over <- r.stopAndKill(ctx, until) }()
	return over
}

func (r *run) stopAndKill(ctx, until context.Context) error {
	random := rand.New(rand.NewPCG(r.options.Seed, nobody))
	part := func(low, high float64) time.Duration {
		return time.Duration((low + (high-low)*random.Float64()) * float64(r.options.TTL))
	}
	for next := len(r.crew); ; {
		pause(until, part(0.3, 1.2))
		if until.Err() != nil {
			return nil //nolint:nilerr // the time for it is over
		}
		i := random.IntN(len(r.crew))
		p := r.crew[i].player.(*process)
		if random.Float64() < 0.6 {
			r.halt(until, p, part(0.4, 2))
			continue
		}
		r.note(Disturbance{Kind: fmt.Sprintf("worker %d killed", p.index)})
		p.kill()
		successor, err := r.spawn(next) // under a number of its own
		if err != nil {
			return err
		}
		r.crew[i] = &member{index: next, player: successor}
		r.crew[i].act(ctx)
		next++
	}
}

// halt stops a process for a while.
func (r *run) halt(ctx context.Context, p *process, d time.Duration) {
	from := r.now()
	if stopProcess(p.cmd.Process) != nil {
		return
	}
	pause(ctx, d)
	_ = continueProcess(p.cmd.Process) // it may have ended
	r.book.stopped(Stop{Worker: p.index, From: from, To: r.now()})
	r.book.enter(entry{Fault: &Fault{At: from, Until: r.now(), Worker: -1, Kind: fmt.Sprintf("worker %d stopped", p.index), Rule: "process"}})
}
