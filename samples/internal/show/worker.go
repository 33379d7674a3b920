package show

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/place"
)

// workerVariable holds a worker's configuration and makes a process one.
const workerVariable = "LEASING_SAMPLE_WORKER"

// Report is what a worker tells. Kinds are the sample's own, but for these.
type Report struct {
	Worker string
	Kind   string
	Token  int64  `json:",omitempty"`
	Number int64  `json:",omitempty"`
	Text   string `json:",omitempty"`
}

const (
	// Exited is the end of a process.
	Exited = "exited"
	// Failed is an error that no sample expects.
	Failed = "failed"
)

// Worker is this process, in a worker. Its methods may be called from several
// goroutines.
type Worker struct {
	Name  string
	Place place.Place
	Arg   string

	mu   sync.Mutex // of standard output
	cues chan struct{}
}

// Work is what a worker does. An error ends the whole run.
type Work func(ctx context.Context, w *Worker) error

// MainOfWorker does a worker's work and ends the process, if it is a worker's.
// A test calls it first of all, since its workers are the test's program.
func MainOfWorker(work Work) {
	config := os.Getenv(workerVariable)
	if config == "" {
		return
	}
	w := &Worker{cues: make(chan struct{})}
	if err := json.Unmarshal([]byte(config), w); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is for the parent, which then ends its workers
	ctx, stop := context.WithCancel(context.Background())
	go w.listen(stop)
	err := work(ctx, w)
	stop()
	if err != nil {
		w.Say(Report{Kind: Failed, Text: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// farewell is how long a worker may take to end in order.
const farewell = 10 * time.Second

// listen takes the cues in. Their end tells the worker to end its work: it was
// dismissed, or its parent has died without a word.
func (w *Worker) listen(stop func()) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		w.cues <- struct{}{}
	}
	stop()
	<-time.After(farewell)
	os.Exit(1)
}

// Say reports.
func (w *Worker) Say(r Report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // a report is plain data
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n')) // without a parent there is nobody to tell
}

// Cue reports and waits until the play lets the worker go on. It stands for
// something that takes time, and obeys no context: a process that is paused or
// killed here doesn't either.
func (w *Worker) Cue(r Report) {
	w.Say(r)
	<-w.cues
}
