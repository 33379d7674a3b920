package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// worker competes for the lease, and works while it is the holder. This file is an example of
// your application's code; it is the same for every backend.
type worker struct {
	settings
	manager *leasing.Manager

	mu  sync.Mutex // of out
	out io.Writer
}

// compete runs one term after another, until ctx ends or an error occurs that a retry can't fix.
func (w *worker) compete(ctx context.Context) error {
	w.manager.Subscribe(w.observe)
	w.printf("competes for %q on %s", w.Name, w.manager.Capabilities().Provider)
	for {
		err := w.term(ctx)
		if errors.Is(err, leasing.ErrLost) || errors.Is(err, ctx.Err()) {
			err = nil // the work has stopped
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// term waits for the lease, works under it, and releases the lease.
func (w *worker) term(ctx context.Context) error {
	waiting, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watch(waiting) })
	defer watcher.Wait()
	defer stopWatching()
	return w.manager.With(leasing.AcquireOptions{Metadata: w.Metadata}).Do(ctx, w.Name,
		func(ctx context.Context, lease *leasing.Lease) error {
			stopWatching()
			watcher.Wait()
			return w.workItems(ctx, lease)
		})
}

// workItems is the work: one item after another until ctx ends. ctx ends before another client can
// have the lease. The writes of an item belong behind a fence: see package fencing, and the samples
// in ../scenarios.
func (w *worker) workItems(ctx context.Context, lease *leasing.Lease) error {
	w.printf("HAS THE LEASE, token %d, for %s unless renewed", lease.Token(), seconds(lease.Remaining()))
	pace := time.NewTicker(w.pace)
	defer pace.Stop()
	for item := 1; ; item++ {
		select {
		case <-pace.C: // here an item would be worked on
			w.printf("did item %-3d the lease has %s left", item, seconds(lease.Remaining()))
		case <-ctx.Done():
			w.printf("stops its work: %v", context.Cause(ctx))
			return nil
		}
	}
}

// watch prints the lease's holder while this worker waits for the lease.
func (w *worker) watch(ctx context.Context) {
	next := time.NewTimer(w.pace / 4) // a free lease is acquired before the first Inspect
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		record, err := w.manager.Inspect(ctx, w.Name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.printf("trouble: %v", err)
		case record.Held:
			w.printf("waits: %s", holder(record))
		}
		next.Reset(w.pace)
	}
}

// holder describes the holder of the lease, as far as the backend knows.
func holder(record leasing.Record) string {
	if record.Unconfirmed {
		return "a new holder has just taken it, and is not recorded yet"
	}
	text := fmt.Sprintf("%s has the lease, token %d, ", record.Owner, record.Token)
	left, known := record.Remaining()
	switch {
	case !known:
		text += "for how long the backend does not tell"
	case record.Breaking:
		text += "broken, it ends in " + seconds(left)
	default:
		text += "for " + seconds(left) + " unless renewed"
	}
	for _, key := range slices.Sorted(maps.Keys(record.Metadata)) {
		text += ", " + key + "=" + record.Metadata[key]
	}
	return text
}

// observe prints the events of this worker's leases.
func (w *worker) observe(e leasing.Event) {
	switch {
	case e.Kind == leasing.EventRenewed:
		w.printf("renewed the lease, %s left again (%d so far)", seconds(e.Remaining), e.Renewals)
	case e.Kind == leasing.EventRenewalFailed:
		w.printf("trouble: renewal failed: %v", e.Err)
	case e.Kind == leasing.EventLost:
		w.printf("HAS LOST THE LEASE: %v", e.Err)
	case e.Kind == leasing.EventReleased && e.Err != nil:
		w.printf("could not tell the backend that it gives the lease up: %v", e.Err)
	case e.Kind == leasing.EventReleased:
		w.printf("has given the lease up")
	}
}

// printf prints a line.
func (w *worker) printf(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(w.out, "%s %s  %s\n", time.Now().Format("15:04:05.000"), w.Owner, text)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
