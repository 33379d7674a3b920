package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// worker competes for the lease, and works while it has it. This file is what an
// application of yours would look like; it is the same for every backend.
type worker struct {
	settings
	manager leasing.Manager
	book    *ledger // nil without -ledger
	print   printer
}

// work is a worker's whole life: until ctx ends, or something is wrong that
// trying again can't help.
func work(ctx context.Context, s settings, print printer) (err error) {
	provider, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	manager, err := leasing.NewManager(provider, s.options())
	if err != nil {
		return err
	}
	w := &worker{settings: s, manager: manager, print: print}
	manager.Subscribe(w.observe)
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, manager.Close(closing))
	}()
	if w.book, err = openLedger(ctx, s.Ledger); err != nil {
		return err
	}
	defer w.book.close()

	backend := manager.Capabilities()
	w.say(report{Kind: competing, Text: fmt.Sprintf("competes for %q on %s, a lease of %v", s.Name, backend.Provider, s.ttlOn(backend))})
	return w.compete(ctx)
}

// compete stands for one term after the other.
func (w *worker) compete(ctx context.Context) error {
	for {
		err := w.term(ctx)
		switch {
		case ctx.Err() != nil: // asked to stop
			return unless(err, leasing.ErrLost, context.Canceled)
		case errors.Is(err, leasing.ErrLost), errors.Is(err, leasing.ErrStale):
			continue // the work has stopped; compete again
		case err != nil:
			return err
		}
	}
}

// term waits for the lease, works under it, and gives it up.
func (w *worker) term(ctx context.Context) error {
	waiting, haveIt := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watch(waiting) })
	defer watcher.Wait()
	defer haveIt()
	return leasing.DoWith(ctx, w.manager, w.Name, &leasing.AcquireOptions{Metadata: w.metadata()},
		func(ctx context.Context, lease leasing.Lease) error {
			haveIt()
			watcher.Wait()
			return w.items(ctx, lease)
		})
}

// items is the work: one item after the other until ctx ends, which it does in
// time before anybody else can have the lease.
func (w *worker) items(ctx context.Context, lease leasing.Lease) error {
	w.say(report{Kind: acquired, Token: lease.Token(), Left: lease.Remaining()})
	pace := time.NewTicker(time.Duration(w.Pace))
	defer pace.Stop()
	for item := int64(1); ; item++ {
		select {
		case <-pace.C: // here an item would be worked on
		case <-ctx.Done():
			w.say(report{Kind: stopping, Token: lease.Token(), Text: context.Cause(ctx).Error()})
			return nil
		}
		row, err := w.book.write(ctx, w.Name, lease.Token(), w.Owner)
		switch {
		case err == nil:
			w.say(report{Kind: did, Token: lease.Token(), Item: first(row, item), Left: lease.Remaining()})
		case errors.Is(err, leasing.ErrStale): // somebody has had the lease since
			w.say(report{Kind: refused, Token: lease.Token(), Text: err.Error()})
			return err
		case ctx.Err() == nil:
			return err
		}
	}
}

// watch shows who holds the lease while this worker waits for it.
func (w *worker) watch(ctx context.Context) {
	look := time.NewTimer(time.Duration(w.Show) / 4) // by then one that is free is ours
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		record, err := w.manager.Inspect(ctx, w.Name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.say(report{Kind: troubled, Text: err.Error()})
		case record.Held:
			w.say(waitingFor(record))
		}
		look.Reset(time.Duration(w.Show))
	}
}

// observe tells the events of this worker's leases. The first of them, acquired,
// is told by the work itself.
func (w *worker) observe(e leasing.Event) {
	r := report{Token: e.Token, Left: e.Remaining, Item: int64(e.Renewals)}
	switch e.Kind {
	case leasing.EventRenewed:
		r.Kind = renewed
	case leasing.EventRenewalFailed:
		r.Kind, r.Text = troubled, "renewal failed: "+e.Err.Error()
	case leasing.EventLost:
		r.Kind, r.Text = lost, e.Err.Error()
	case leasing.EventReleased:
		r.Kind = released
		if e.Err != nil {
			r.Text = e.Err.Error()
		}
	default:
		return
	}
	w.say(r)
}

// metadata is what others can read about this worker while it holds the lease.
func (w *worker) metadata() map[string]string {
	metadata := map[string]string{"pid": strconv.Itoa(os.Getpid())}
	if host, err := os.Hostname(); err == nil {
		metadata["host"] = host
	}
	maps.Copy(metadata, w.Metadata)
	return metadata
}

func (w *worker) say(r report) {
	r.Time, r.Worker = time.Now(), w.Owner
	w.print(r)
}

// ttlOn is the TTL as a backend grants it: see leasing.Options.RaiseToMinTTL.
func (s settings) ttlOn(backend leasing.Capabilities) time.Duration {
	ttl := max(time.Duration(s.Leasing.TTL), backend.MinTTL)
	if backend.MaxTTL > 0 {
		ttl = min(ttl, backend.MaxTTL)
	}
	return ttl
}

// unless returns err, or nil if it matches one of those that are expected.
func unless(err error, expected ...error) error {
	for _, e := range expected {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
