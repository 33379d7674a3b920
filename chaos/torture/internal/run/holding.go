package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// hold works under a lease until the hold time has passed, run ends, or the lease ends.
func (w *worker) hold(work, run context.Context, manager *leasing.Manager, l *leasing.Lease, h *holdRecorder, usage usage) (crashed bool) {
	enough := time.NewTimer(usage.hold)
	defer enough.Stop()
	if usage.leaves {
		leaving := time.AfterFunc(usage.hold/2, func() {
			usage.leave()
			w.journal.Enter(history.Answer{Worker: w.index, Name: l.Name(), Claim: claimOf(l.ID()), Verb: "leave", Call: w.clock.now()})
		})
		defer leaving.Stop()
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	if usage.noRenewal {
		atTheEnd := time.AfterFunc(l.Remaining(), func() {
			if l.Remaining() == 0 && l.Err() == nil {
				w.journal.Enter(history.Violation{Check: history.CheckTrust, Name: l.Name(), At: w.clock.now(), Text: fmt.Sprintf("a lease of worker %d has no time left, and is said to be held", w.index)})
			}
		})
		defer atTheEnd.Stop()
	}
	for {
		w.act(work, &asking, manager, l, &usage)
		tick := time.NewTimer(w.shortTime(20*time.Millisecond, 200*time.Millisecond))
		select {
		case <-tick.C:
		case <-work.Done():
		case <-run.Done():
		case <-enough.C:
			if usage.crash {
				tick.Stop()
				return w.crash(run, manager, h)
			}
			usage.hold = 0
		}
		tick.Stop()
		switch {
		case isLost(l):
			w.afterLoss(run, l, h)
			if !w.options.Repeatable {
				w.copyRenewal(l)
			}
			return false
		case work.Err() != nil || run.Err() != nil || usage.hold == 0:
			if l.Context().Err() != nil {
				w.recordAnswer(run, history.Answer{Verb: "end", Call: w.clock.now()}, l, context.Cause(l.Context()))
			}
			if usage.lingers > 0 {
				_ = l.Release(work) // in Do, Release only ends the work
				pause(context.WithoutCancel(run), usage.lingers)
			}
			h.end(history.EndingGivenUp)
			return false
		}
	}
}

// act writes to the resource, and sometimes sends requests for the lease.
func (w *worker) act(ctx context.Context, asking *sync.WaitGroup, manager *leasing.Manager, l *leasing.Lease, usage *usage) {
	w.write(l)
	if !w.options.Repeatable && w.random.Float64() < 0.05 && l.TTL() != leasing.Infinite {
		w.copyAcquire(l, true)
	}
	if !w.options.Repeatable && w.random.Float64() < 0.02 {
		asking.Go(func() { w.acquireOwnName(ctx, manager, l) })
	}
	if usage.manual && w.random.Float64() < 0.4 {
		w.settle()
		w.renew(ctx, l)
	}
	often := 0.4
	if usage.metadata == noMetadata {
		often = 0.05
	}
	if usage.metadata != "" && w.random.Float64() < often {
		w.settle()
		w.change(ctx, l, &usage.metadata)
	}
}

// release releases the lease with a context of its own, as a worker does when it shuts down.
func (w *worker) release(ctx context.Context, l *leasing.Lease, usage usage) {
	limit := w.options.TTL
	if usage.cutRelease {
		limit = 0
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	once := func() {
		called := w.clock.now()
		w.recordAnswer(bound, history.Answer{Verb: "release", Call: called}, l, l.Release(bound)) // the manager continues in the background
	}
	var all sync.WaitGroup
	all.Go(once)
	if usage.twice {
		all.Go(once)
	}
	all.Wait()
	if !w.options.Repeatable && inBubble() && w.random.Float64() < 0.1 && l.Release(bound) == nil { // only if the release succeeded
		w.copyAcquire(l, false)
	}
}

// acquireOwnName tries to acquire a name that the worker already holds.
func (w *worker) acquireOwnName(ctx context.Context, manager *leasing.Manager, l *leasing.Lease) {
	ctx, endWait := w.beginWait(ctx, l.Name(), true, 0, 0)
	second, err := manager.TryAcquire(ctx, l.Name())
	if endWait(err == nil, err); err == nil { // the first lease was broken
		_ = second.Release(context.WithoutCancel(ctx))
	}
}

// settle waits for a nanosecond of virtual time in a repeatable run. Within one instant it is
// random whether the manager's loop sees a planned renewal before the plan changes.
func (w *worker) settle() {
	if w.options.Repeatable {
		pause(context.Background(), 1)
	}
}

// renew renews by hand, with a short deadline. The manager's own renewals continue.
func (w *worker) renew(ctx context.Context, l *leasing.Lease) {
	bound, cancel := context.WithTimeout(ctx, w.between(0.05, 0.5))
	defer cancel()
	called := w.clock.now()
	w.recordAnswer(bound, history.Answer{Verb: "renew", Call: called}, l, l.Renew(bound))
}

func isLost(l *leasing.Lease) bool { return errors.Is(l.Err(), leasing.ErrLost) }

// afterLoss waits until the context reports the loss, and then writes once more, like a
// process that was stopped between its check and its write.
func (w *worker) afterLoss(run context.Context, l *leasing.Lease, h *holdRecorder) {
	select {
	case <-l.Done():
		at := w.clock.now()
		h.recordLoss(at)
		w.recordAnswer(run, history.Answer{Verb: "end", Call: at}, l, context.Cause(l.Context()))
	case <-time.After(w.options.Patience + w.options.TTL):
		return // the lease's context did not end
	}
	pause(run, w.between(0, 0.3))
	w.write(l)
	w.renew(context.WithoutCancel(run), l)
}

// crash ends the hold without a release, so the lease runs out.
func (w *worker) crash(run context.Context, manager *leasing.Manager, h *holdRecorder) (crashed bool) {
	if w.random.Float64() < 0.3 {
		w.closeWithoutDeadline(manager)
		h.end(history.EndingAbandoned)
		return true
	}
	h.end(history.EndingAbandoned)
	gone, cancel := context.WithCancel(context.WithoutCancel(run))
	cancel()
	_ = w.close(gone, manager)
	return true
}

// write writes to the resource once, with the lease's token.
func (w *worker) write(l *leasing.Lease) {
	bound, cancel := context.WithTimeout(context.Background(), w.options.Patience)
	defer cancel()
	one := history.Write{Worker: w.index, Name: l.Name(), Claim: claimOf(l.ID()), Token: l.Token(), Call: w.clock.now(), Trusted: l.Err() == nil}
	if w.resource(bound, &one) != nil {
		return
	}
	one.Remaining = l.Remaining()
	one.Trusted, one.Return = l.Err() == nil && one.Trusted, w.clock.now()
	w.journal.Enter(one)
}

// change usually sets new metadata, and then inspects the lease. It inspects the backend below
// the faults, because data that a fault hides from a manager is not an error of the backend.
func (w *worker) change(ctx context.Context, l *leasing.Lease, m *metadata) {
	if w.random.Float64() < 0.7 {
		next := metadata(fmt.Sprint(w.random.IntN(1e6)))
		called := w.clock.now()
		err := l.SetMetadata(ctx, next.values())
		w.recordAnswer(ctx, history.Answer{Verb: "set", Call: called}, l, err)
		if err != nil {
			*m = "" // the old or the new value
			return
		}
		*m = next
	}
	clear(l.Metadata()) // the holder's own copy
	bound, cancel := context.WithTimeout(ctx, w.options.Patience+time.Second)
	defer cancel()
	one := history.Reading{
		Worker: w.index, Name: l.Name(), Claim: claimOf(l.ID()), Token: l.Token(), Call: w.clock.now(), Trusted: l.Err() == nil,
		Metadata: string(*m), Has: read(l.Metadata()),
	}
	record, err := w.below.Inspect(bound, abstractions.InspectRequest{Name: l.Name()})
	if err != nil || record.Unconfirmed {
		return
	}
	one.Holder, one.HolderToken, one.Shown = record.Fingerprint.String(), record.Token, read(record.Metadata)
	if record.Owner != owner(w.index) {
		one.Other = record.Owner
	}
	if w.random.Float64() < 0.2 {
		w.list(bound, &one)
	}
	clear(record.Metadata) // also a copy
	one.Trusted, one.Return = l.Err() == nil && one.Trusted, w.clock.now()
	w.journal.Enter(one)
}

// list searches the backend's lists for the name of a lease, if the backend can list names.
func (w *worker) list(ctx context.Context, one *history.Reading) {
	lister, ok := abstractions.As[abstractions.Lister](w.below)
	if !ok {
		return
	}
	all := one.Name[:strings.LastIndex(one.Name, "/")+1]
	var strange, more string
	var errs [2]error
	one.AsHeld, strange, errs[0] = w.count(ctx, lister, one.Name, abstractions.ListRequest{Prefix: all, HeldOnly: true, Limit: 1})
	one.AsName, more, errs[1] = w.count(ctx, lister, one.Name, abstractions.ListRequest{Prefix: one.Name})
	one.Strange, one.Listed = cmp.Or(strange, more), errs[0] == nil && errs[1] == nil
}

// count returns how often a name occurs in all pages of a list, and describes a record that should not be listed.
func (w *worker) count(ctx context.Context, lister abstractions.Lister, name string, req abstractions.ListRequest) (times int, strange string, err error) {
	var seen []string
	for first := true; first || req.After != ""; first = false {
		page, err := lister.List(ctx, req)
		if err != nil {
			return 0, "", err
		}
		for _, record := range page.Records {
			switch {
			case !strings.HasPrefix(record.Name, req.Prefix):
				strange = record.Name + ", which was not asked for"
			case req.HeldOnly && !record.Held:
				strange = record.Name + " as held, which it is not"
			case !w.options.Votes && record.Name != name && slices.Contains(seen, record.Name):
				strange = record.Name + " twice"
			}
			if record.Name == name {
				times++
			}
			seen = append(seen, record.Name)
		}
		req.After = page.Next
	}
	return times, strange, nil
}
