package run

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// workerVariable is the environment variable that makes a process a worker.
const workerVariable = "LEASING_TORTURE_WORKER"

// job is the configuration of a worker process.
type job struct {
	Index   int           `json:"index"`
	Names   []string      `json:"names"`
	Least   time.Duration `json:"least"` // the provider's shortest TTL
	Options portable      `json:"options"`
}

func init() { // the types that are sent as interface values
	for _, one := range []any{history.Operation{}, history.Hold{}, history.Write{}, history.Wait{}, history.Reading{}, history.Answer{}, history.Observation{}, history.Fault{}, history.Violation{}} {
		gob.Register(one)
	}
}

// process is the run's side of a worker process. The worker calls these methods through
// package net/rpc, over standard input and output. So the methods are exported, and have
// two arguments.
type process struct {
	*servertest.Process
	r            *stage
	job          job
	faults, work context.Context // these contexts end when the faults or the work must end
	cancelFaults context.CancelFunc
	stop         context.CancelFunc
	called       atomic.Bool  // the process has called WorkerMain
	failed       atomic.Value // the error that the worker reported
	killed       atomic.Bool  // by kill
	ended        chan struct{}
}

func newProcess(r *stage, j job) *process {
	p := &process{r: r, job: j, ended: make(chan struct{})}
	p.faults, p.cancelFaults = context.WithCancel(context.Background())
	p.work, p.stop = context.WithCancel(context.Background())
	return p
}

// pipes is a connection over standard input and output.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// Job sends the worker its configuration.
func (p *process) Job(_ int, text *[]byte) (err error) {
	p.called.Store(true)
	*text, err = json.Marshal(p.job)
	return err
}

// Now returns the run's time, by which a worker sets its clock.
func (p *process) Now(_ int, now *time.Duration) error { *now = p.r.now(); return nil }

// FaultsEnded blocks until the faults must end.
func (p *process) FaultsEnded(int, *int) error { <-p.faults.Done(); return nil }

// Stopped blocks until the work must end.
func (p *process) Stopped(int, *int) error { <-p.work.Done(); return nil }

// Write makes a write to the resource.
func (p *process) Write(request any, answer *any) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.r.options.Patience)
	defer cancel()
	w := request.(history.Write)
	err := p.r.resource(ctx, &w)
	*answer = w
	return err
}

// Fail stores the error that ends the worker.
func (p *process) Fail(why string, _ *int) error {
	p.failed.Store(errors.New(why))
	return nil
}

// Enter records an item in the journal.
func (p *process) Enter(what any, _ *int) error { p.r.recording.Enter(what); return nil }

// spawn starts the worker process with an index.
func (r *stage) spawn(index int) (*process, error) {
	o := r.options
	p := newProcess(r, job{Index: index, Names: r.names, Least: o.least, Options: portable(o)})
	cmd := o.Process()
	cmd.Env = append(cmd.Environ(), workerVariable+"=1")
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, toWorker, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromWorker, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), toWorker.Close())
	}
	cmd.Stdin, cmd.Stdout = in, out
	p.Process, err = servertest.StartProcess(cmd)
	_, _ = in.Close(), out.Close() // the process has copies of its own
	conn := pipes{fromWorker, toWorker}
	if err != nil {
		return nil, fmt.Errorf("worker process %d: %w", index, errors.Join(err, conn.Close()))
	}
	go p.serve(conn)
	return p, nil
}

// serve answers the calls of the process until the process and all calls have ended.
func (p *process) serve(conn io.ReadWriteCloser) {
	defer close(p.ended)
	server := rpc.NewServer()
	if err := server.RegisterName("Run", p); err != nil {
		panic(err) // a method that net/rpc can't call
	}
	go func() {
		<-p.Done()
		p.endFaults()
		p.stop()
	}()
	server.ServeConn(conn)
	<-p.Done()
}

// run waits for the end of the process. When ctx ends it stops the worker and waits.
func (p *process) run(ctx context.Context) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.stop()
		<-p.ended
	}
	err := p.Wait(context.Background())
	if reported, ok := p.failed.Load().(error); ok {
		err = errors.Join(reported, err)
	}
	switch {
	case p.killed.Load():
		return nil
	case err == nil && !p.called.Load():
		return errors.New("its process has not called WorkerMain")
	case err == nil && ctx.Err() == nil:
		return errors.New("its process ended by itself")
	}
	return err
}

func (p *process) endFaults() { p.cancelFaults() }

// kill ends the process at once, and records that its holds have ended.
func (p *process) kill() {
	at := p.r.now()
	p.killed.Store(true)
	p.Kill()
	<-p.ended
	p.r.recording.Enter(history.Killed{Worker: p.job.Index, At: at})
}

// Close ends the process if it still runs.
func (p *process) Close() error {
	select {
	case <-p.ended:
	default:
		p.kill()
	}
	return nil
}

// suspend stops a process for a while.
func (r *stage) suspend(ctx context.Context, p *process, d time.Duration) {
	from := r.now()
	if p.Pause() != nil {
		return
	}
	pause(ctx, d)
	_ = p.Resume() // the process may have ended
	r.recording.Enter(history.Stop{Worker: p.job.Index, From: from, To: r.now()})
	r.recording.Enter(history.Fault{At: from, Until: r.now(), Worker: -1, Kind: fmt.Sprintf("worker %d stopped", p.job.Index), Rule: "process"})
}
