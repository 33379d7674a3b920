package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

const (
	batchSize    = 500                    // bounds the entries written at a time
	writeTimeout = 5 * time.Second        // bounds one attempt
	firstPause   = 100 * time.Millisecond // after a failed attempt; doubles each time
	lastPause    = 5 * time.Second
	closeTimeout = 5 * time.Second // of a Close whose context has no deadline
)

// Writer stores entries. WriteHistory is called by one goroutine at a time, and writes all
// entries or returns an error. An error that matches leasing.ErrInvalid is final; after any
// other error the same entries are retried. *sqllease.Provider is a Writer.
type Writer interface {
	WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error
}

// Options configure a recorder. The zero value is ready to use.
type Options struct {
	// Renewals also records renewals. Under load one entry may stand for several renewals.
	Renewals bool
	// Buffer is the maximum number of entries that wait for the writer. Default 10,000.
	Buffer int `option:"default=10000,min=1"`
	// Logger gets a warning when the writer begins to fail, and when entries were
	// dropped. Default: silent.
	Logger *slog.Logger
}

// Recorder records the events of managers. It is safe for concurrent use.
type Recorder struct {
	writer       Writer
	options      Options
	wakeup       chan struct{} // something is pending, or closing has begun
	done         chan struct{} // closed after the last write
	writeCtx     context.Context
	cancelWrites context.CancelFunc

	mu      sync.Mutex
	pending []abstractions.NamedEntry
	dropped int64
	logged  int64 // the number of dropped entries that were logged
	closing bool
}

// New creates a recorder, and starts its goroutine, which Close ends.
func New(writer Writer, options Options) (*Recorder, error) {
	if writer == nil {
		return nil, &leasing.InvalidError{Field: "writer", Value: nil, Want: "a history.Writer"}
	}
	if err := providerkit.Complete(&options); err != nil {
		return nil, err
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recorder{writer: writer, options: options, wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	r.writeCtx, r.cancelWrites = context.WithCancel(context.Background())
	go r.work()
	return r, nil
}

// Observe records an event. Pass it to Manager.Subscribe, of one manager or several.
// It never blocks.
func (r *Recorder) Observe(e leasing.Event) {
	entry, is := entryOf(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Kind == leasing.EventDropped:
		r.dropped += int64(e.Coalesced)
	case !is || entry.Kind == abstractions.HistoryRenewed && !r.options.Renewals:
	case r.closing || len(r.pending) >= r.options.Buffer:
		r.dropped++
	default:
		r.pending = append(r.pending, entry)
		r.wake()
	}
}

// Dropped returns the number of entries that were dropped without being written.
func (r *Recorder) Dropped() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close writes the pending entries. It returns when they are written or ctx ends, or
// after 5 s if ctx has no deadline. Its error says how many entries were not written. A
// Writer that ignores its context may still be busy afterwards. Close the managers first,
// since closing emits their last events.
func (r *Recorder) Close(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	r.mu.Lock()
	r.closing = true
	r.wake()
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.cancelWrites()
	r.mu.Lock()
	left := len(r.pending)
	r.dropped += int64(left)
	r.pending = nil
	r.mu.Unlock()
	r.logDropped()
	if left > 0 {
		return fmt.Errorf("history: %d entries were not written: %w", left, context.Cause(ctx))
	}
	return nil
}

// wake wakes the goroutine. Caller holds mu.
func (r *Recorder) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// work writes entries until closing has begun and all are written, or Close has given up.
func (r *Recorder) work() {
	defer close(r.done)
	for {
		r.mu.Lock()
		batch, closing := r.pending[:min(len(r.pending), batchSize)], r.closing
		r.mu.Unlock()
		switch {
		case r.writeCtx.Err() != nil || len(batch) == 0 && closing:
			return
		case len(batch) == 0:
			<-r.wakeup
		default:
			r.write(batch)
		}
	}
}

// write writes a batch, and removes it from the pending entries.
func (r *Recorder) write(batch []abstractions.NamedEntry) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.writeOnce(batch)
		if err == nil || errors.Is(err, leasing.ErrInvalid) {
			r.finishBatch(len(batch), err)
			return
		}
		if pause == firstPause {
			r.options.Logger.LogAttrs(r.writeCtx, slog.LevelWarn, "leasing: history can't be written; retrying", slog.String("error", err.Error()))
		}
		select {
		case <-r.writeCtx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// writeOnce writes a batch once. A panic in the writer becomes an error.
func (r *Recorder) writeOnce(batch []abstractions.NamedEntry) (err error) {
	ctx, cancel := context.WithTimeout(r.writeCtx, writeTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("history: the writer panicked: %v", p)
		}
	}()
	return r.writer.WriteHistory(ctx, batch)
}

// finishBatch removes entries that were written, or refused for good, from the pending entries.
func (r *Recorder) finishBatch(n int, refused error) {
	r.mu.Lock()
	if len(r.pending) > 0 { // otherwise Close has given up
		r.pending = r.pending[n:]
		if refused != nil {
			r.dropped += int64(n)
		}
	}
	r.mu.Unlock()
	if refused != nil {
		r.options.Logger.LogAttrs(r.writeCtx, slog.LevelWarn, "leasing: history was refused", slog.String("error", refused.Error()))
	}
	r.logDropped()
}

// logDropped logs the entries that were dropped since the last call.
func (r *Recorder) logDropped() {
	r.mu.Lock()
	dropped := r.dropped - r.logged
	r.logged = r.dropped
	r.mu.Unlock()
	if dropped > 0 {
		r.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, "leasing: history has gaps", slog.Int64("dropped", dropped))
	}
}
