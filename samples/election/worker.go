//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/election"
)

// workerVariable holds a worker's configuration and makes a process one.
const workerVariable = "LEASING_DEMO_WORKER"

// worker is one of the competing processes. This file is what an application
// of yours would look like.
type worker struct {
	Name  string
	Place place

	book *ledger
	mu   sync.Mutex // of standard output
}

func workerMain(config string) int {
	w := &worker{}
	if err := json.Unmarshal([]byte(config), w); err != nil {
		fmt.Fprintln(os.Stderr, "election: worker:", err)
		return 1
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is for the parent, which then stops its workers
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // if the parent dies without a word, so does the worker
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := w.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "election: %s: %v\n", w.Name, err)
		return 1
	}
	return 0
}

// run stands for election until ctx ends.
func (w *worker) run(ctx context.Context) (err error) {
	provider, err := w.Place.provider(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }()
	manager, err := leasing.NewManager(provider, leasing.Options{
		Owner: w.Name, TTL: ttl,
		MaxPoll: 100 * time.Millisecond, // how soon SQLite's waiters find a lease that was released
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
		defer cancel()
		err = errors.Join(err, manager.Close(closing))
	}()
	if w.book, err = openLedger(w.Place); err != nil {
		return err
	}
	defer w.book.close()

	w.say(report{Kind: standing})
	return election.Run(ctx, manager, election.Options{
		Name:      leaseName,
		OnElected: w.lead,
		OnResigned: func(lease leasing.Lease, reason error) {
			if !errors.Is(reason, leasing.ErrLost) {
				w.say(report{Kind: resigned, Token: lease.Token()})
			}
		},
	})
}

// lead is a leader's work, under the lease's context.
func (w *worker) lead(ctx context.Context, lease leasing.Lease) error {
	w.tell(elected, lease, 0)
	pace := time.NewTicker(writeEvery)
	defer pace.Stop()
	for {
		row, err := w.book.write(ctx, w.Name, lease.Token())
		switch {
		case err == nil:
			w.tell(wrote, lease, row)
		case errors.Is(err, leasing.ErrStale):
			w.say(report{Kind: refused, Token: lease.Token(), Text: err.Error()})
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			w.over(ctx, lease)
			return nil
		}
	}
}

// over ends a term. A leader that was paused may have had a write on its way
// when it was; so here, on purpose, one more is sent after the lease was lost.
// The ledger has to refuse it.
func (w *worker) over(ctx context.Context, lease leasing.Lease) {
	cause := context.Cause(ctx)
	if !errors.Is(cause, leasing.ErrLost) {
		w.say(report{Kind: stopping, Token: lease.Token()})
		return
	}
	w.say(report{Kind: lost, Token: lease.Token(), Text: cause.Error()})
	inFlight, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
	defer cancel()
	row, err := w.book.write(inFlight, w.Name, lease.Token())
	switch {
	case err == nil:
		w.say(report{Kind: late, Token: lease.Token(), Row: row})
	case errors.Is(err, leasing.ErrStale):
		w.say(report{Kind: refused, Token: lease.Token(), Text: err.Error()})
	default:
		w.say(report{Kind: failed, Token: lease.Token(), Text: err.Error()})
	}
}

// tell reports with the trust left. It is read before the clock, so that what
// is reported is rather too much than too little.
func (w *worker) tell(kind kind, lease leasing.Lease, row int64) {
	trust := lease.Remaining()
	w.say(report{Kind: kind, Token: lease.Token(), Trust: trust, Row: row})
}

// say writes a report to standard output, a pipe to the parent.
func (w *worker) say(r report) {
	r.Worker, r.At = w.Name, hostTime()
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // a report is plain data
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n')) // without a parent there is nobody to tell
}
