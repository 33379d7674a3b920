package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// workerVariable holds a worker's configuration and makes a process a worker.
const workerVariable = "LEASING_SAMPLE_WORKER"

// Report is a message of a worker. Kinds are the scenario's own, except Exited and Failed.
// Text is printed.
type Report struct {
	Worker string        `json:"worker"`
	Kind   string        `json:"kind"`
	At     time.Time     `json:"at"` // by the host's clock, which all workers share
	Token  int64         `json:"token,omitempty"`
	Number int64         `json:"number,omitempty"`
	Trust  time.Duration `json:"trust_ns,omitempty"` // how long the lease can still be trusted
	Text   string        `json:"text,omitempty"`
}

const (
	// Exited is the end of a process.
	Exited = "exited"
	// Failed is an error that no scenario expects.
	Failed = "failed"
)

// Worker is this process, in a worker. Its methods may be called from several
// goroutines.
type Worker struct {
	Name     string           `json:"name"`
	Arg      string           `json:"arg"`
	Scenario string           `json:"scenario"`
	Place    place.Place      `json:"place"`
	Data     *place.Data      `json:"-"`
	Manager  *leasing.Manager `json:"-"`

	mu    sync.Mutex // of standard output
	input chan struct{}
}

// WorkerMain does a worker's work and ends the process, if it is a worker's.
// A test calls it first of all, since its workers are the test's program.
func WorkerMain(scenarios ...Scenario) {
	config := os.Getenv(workerVariable)
	if config == "" {
		return
	}
	w := &Worker{input: make(chan struct{})}
	if err := json.Unmarshal([]byte(config), w); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is for the parent, which then ends its workers
	ctx, stop := context.WithCancel(context.Background())
	go w.listen(stop)
	err := errors.New("there is no such scenario")
	for _, s := range scenarios {
		if s.Name == w.Scenario {
			err = w.run(ctx, s)
		}
	}
	stop()
	if err != nil {
		w.Report(Report{Kind: Failed, Text: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// run opens what an application opens at its start, and works.
func (w *Worker) run(ctx context.Context, s Scenario) (err error) {
	manager, data, closeAll, err := w.Place.Connect(ctx, leasing.Options{
		Owner: w.Name, TTL: s.TTL, RaiseToMinTTL: true,
		Tuning: leasing.Tuning{MaxPoll: 100 * time.Millisecond}, // how soon waiters on SQLite find a lease that was released
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	w.Manager, w.Data = manager, data
	return s.Work(ctx, w)
}

// stopLimit is the time that a worker may take to end in order.
const stopLimit = 10 * time.Second

// listen reads the input. Its end tells the worker to end its work: it was
// stopped, or its parent has died without a word.
func (w *Worker) listen(stop func()) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		w.input <- struct{}{}
	}
	close(w.input)
	stop()
	<-time.After(stopLimit)
	os.Exit(1)
}

// Report sends a report to the parent.
func (w *Worker) Report(r Report) {
	r.Worker, r.At = w.Name, time.Now()
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // a report is plain data
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n')) // without a parent the report has no reader
}

// Say reports a text.
func (w *Worker) Say(kind string, number int64, format string, args ...any) {
	w.Report(Report{Kind: kind, Number: number, Text: fmt.Sprintf(format, args...)})
}

// SayAndWait reports a text and waits.
func (w *Worker) SayAndWait(kind string, number int64, format string, args ...any) {
	w.Say(kind, number, format, args...)
	w.Wait()
}

// Wait waits until the parent lets the worker go on, or asks it to end. It stands for work that
// takes time, and obeys no context, because a process that is paused or killed here
// obeys no context.
func (w *Worker) Wait() { <-w.input }
