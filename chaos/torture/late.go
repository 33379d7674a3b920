package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// What a network and an operator do, here and there: they ask the backend below the manager, which
// hears nothing of it.

// asked has the IDs of claims that workers of this process have asked for and not released, by
// fingerprint: no record shows an ID, and a late copy of a request needs the ID.
var asked sync.Map

// claimOf returns the name of a claim in a history.
func claimOf(id string) string { return abstractions.FingerprintOf(id).String() }

// wired makes a request below the manager.
func (w *worker) wired(ask func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), w.options.Patience+time.Second)
	defer cancel()
	ask(ctx)
}

// copyAcquire delivers an acquire of a lease once more, and late: for less time if it is held, and
// else at once after its release, which the name remembers. What comes of that is given back.
func (w *worker) copyAcquire(l *leasing.Lease, held bool) {
	w.wired(func(ctx context.Context) {
		record, err := w.below.Inspect(ctx, abstractions.InspectRequest{Name: l.Name()})
		if err == nil && held == (record.Held && record.Fingerprint == abstractions.FingerprintOf(l.ID())) { // it may have been broken, and that forgotten
			w.again(ctx, l.Name(), l.ID(), l.Owner(), held)
		}
	})
}

func (w *worker) again(ctx context.Context, name, id, owner string, held bool) {
	ttl := max(w.options.TTL/2, w.options.least)
	if _, err := w.wire.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: owner, TTL: ttl}); err == nil && !held {
		_ = w.wire.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
	}
}

// copyRenewal delivers a renewal of a lease that is lost. A backend may still know it, and is not to end it any sooner:
// its manager's requests, among which this is not, would not explain that.
func (w *worker) copyRenewal(l *leasing.Lease) {
	ttl := l.TTL()
	if ttl == leasing.Infinite { // which only a backend that knows it no more has ended
		ttl = max(w.options.TTL/2, w.options.least)
	}
	w.wired(func(ctx context.Context) {
		_, _ = w.wire.Renew(ctx, abstractions.RenewRequest{Name: l.Name(), ID: l.ID(), Token: l.Token(), TTL: ttl})
	})
}

// operate breaks the lease of a name, mostly so that it runs out, sometimes twice, or means one that
// was before. Then it delivers the acquire of what it has broken.
func (w *worker) operate(name string) {
	w.wired(func(ctx context.Context) {
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
				_, _ = w.wire.Break(ctx, req)
			}()
		}
		if result, err := w.wire.Break(ctx, req); err == nil && result.WasHeld && result.Token == record.Token {
			if id, ours := asked.Load(record.Fingerprint); ours {
				w.again(ctx, name, id.(string), record.Owner, false)
			}
		}
	})
}
