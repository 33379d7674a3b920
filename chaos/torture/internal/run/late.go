package run

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// bypassManager makes a request that the manager does not see, like one that a network repeats or an operator sends.
func (w *worker) bypassManager(ask func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), w.options.Patience+time.Second)
	defer cancel()
	ask(ctx)
}

// copyAcquire delivers a late copy of an acquire, with a shorter TTL. The copy arrives while the
// lease is held, or right after its release, while the backend still remembers the released
// claim. If the copy is granted after the release, copyAcquire releases that lease.
func (w *worker) copyAcquire(l *leasing.Lease, held bool) {
	w.bypassManager(func(ctx context.Context) {
		record, err := w.below.Inspect(ctx, abstractions.InspectRequest{Name: l.Name()})
		if err == nil && held == (record.Held && record.Fingerprint == abstractions.FingerprintOf(l.ID())) { // a break may have ended the lease, and the backend may have forgotten it
			w.repeatAcquire(ctx, l.Name(), l.ID(), l.Owner(), held)
		}
	})
}

func (w *worker) repeatAcquire(ctx context.Context, name, id, owner string, held bool) {
	ttl := max(w.options.TTL/2, w.options.least)
	if _, err := w.backend.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: owner, TTL: ttl}); err == nil && !held {
		_ = w.backend.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
	}
}

// copyRenewal delivers a late copy of a renewal of a lost lease. The backend may still have the lease, and the copy must
// not shorten it: the recorded requests of the manager do not include the copy, and so would not explain an earlier end.
func (w *worker) copyRenewal(l *leasing.Lease) {
	ttl := l.TTL()
	if ttl == leasing.Infinite { // a lost infinite lease is no longer known to the backend
		ttl = max(w.options.TTL/2, w.options.least)
	}
	w.bypassManager(func(ctx context.Context) {
		_, _ = w.backend.Renew(ctx, abstractions.RenewRequest{Name: l.Name(), ID: l.ID(), Token: l.Token(), TTL: ttl})
	})
}

// operate breaks the lease of a name, usually by letting it run out. The break is sometimes repeated, or names an
// earlier token. Then operate delivers a late copy of the acquire of the broken lease.
func (w *worker) operate(name string) {
	w.bypassManager(func(ctx context.Context) {
		record, err := w.below.Inspect(ctx, abstractions.InspectRequest{Name: name})
		if err != nil || !record.Held {
			return
		}
		reason := fmt.Sprintf("reason %d", w.random.IntN(1e6))
		req := abstractions.BreakRequest{Name: name, IfToken: record.Token, Actor: owner(w.index), Reason: reason, Grace: w.options.TTL / 2}
		switch kind := w.random.Float64(); {
		case kind < 0.4:
			req.IfToken--
		case kind < 0.6:
			req.Immediate = true
		case kind < 0.8:
			defer func() {
				req.Reason += ", again"
				_, _ = w.backend.Break(ctx, req)
			}()
		}
		if result, err := w.backend.Break(ctx, req); err == nil && result.WasHeld && result.Token == record.Token {
			if id, known := claimIDs.Load(record.Fingerprint); known {
				w.repeatAcquire(ctx, name, id.(string), record.Owner, false)
			}
		}
	})
}
