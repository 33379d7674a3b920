package memsequence

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Broken is a store in memory with a flaw, which is named after the broken rule.
type Broken struct {
	*Store
	Flaw string
}

// The flaws.
const (
	CommitsLate       = "commits without looking at state and token"
	ClaimsTheHighest  = "claims the highest number"
	RemovesFailures   = "removes a number whose recovery has failed"
	FillsBehindSeals  = "fills what is sealed"
	LetsStaleCleaners = "lets a stale cleaner make a gap"
	ForgetsOrigins    = "issues a number for recovered work that doesn't say where it came from"
)

func (b *Broken) Commit(ctx context.Context, req seqstore.CommitRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if b.Flaw != CommitsLate {
		return b.Store.Commit(ctx, req, write)
	}
	return b.applyAndWake(ctx, req.Stream, nil, write, func(l *ledger, now time.Time) (change, error) {
		e := l.entries[req.Seq]
		e.State, e.Payload, e.ClosedAt = seqstore.Committed, req.Payload, now
		return change{put: []seqstore.Entry{e}, result: e}, nil
	})
}

func (b *Broken) Claim(ctx context.Context, req seqstore.ClaimRequest) (e seqstore.Entry, ok bool, err error) {
	if b.Flaw != ClaimsTheHighest {
		return b.Store.Claim(ctx, req)
	}
	err = b.withStream(ctx, req.Stream, func(l *ledger, now time.Time) error {
		for _, seq := range l.openNumbers() {
			if found := l.entries[seq]; isClaimable(&found, now) {
				e, ok = found, true
			}
		}
		if ok {
			e.State, e.Token, e.ClaimUntil = seqstore.Recovering, e.Token+1, now.Add(req.Duration)
			l.apply(change{put: []seqstore.Entry{e}})
		}
		return nil
	})
	return e, ok, err
}

func (b *Broken) Resolve(ctx context.Context, req seqstore.ResolveRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	e, err := b.Store.Resolve(ctx, req, write)
	change := func(do func(l *ledger)) (seqstore.Entry, error) {
		_ = b.withStream(ctx, req.Stream, func(l *ledger, _ time.Time) error { do(l); return nil })
		return e, nil
	}
	switch {
	case b.Flaw == RemovesFailures && err == nil && req.Outcome == seqstore.OutcomeFailed:
		return change(func(l *ledger) {
			delete(l.entries, req.Seq)
			delete(l.open, req.Seq)
		})
	case b.Flaw == LetsStaleCleaners && err != nil && req.Outcome == seqstore.OutcomeGap:
		return change(func(l *ledger) {
			old := l.entries[req.Seq]
			old.State = seqstore.Gap
			l.apply(putEntry(old))
		})
	case b.Flaw == ForgetsOrigins && err == nil && req.Outcome == seqstore.OutcomeRecovered:
		return change(func(l *ledger) {
			by := l.entries[e.Seq]
			by.Origin = 0
			l.entries[e.Seq] = by
		})
	}
	return e, err
}

func putEntry(e seqstore.Entry) change { return change{put: []seqstore.Entry{e}} }

func (b *Broken) Fill(ctx context.Context, req seqstore.FillRequest, write seqstore.Write[Tx]) (seqstore.Entry, error) {
	if b.Flaw == FillsBehindSeals {
		_ = b.withStream(ctx, req.Stream, func(l *ledger, _ time.Time) error {
			if e := l.entries[req.Seq]; e.State == seqstore.Sealed {
				e.State = seqstore.Filled
				e.Payload = req.Payload
				l.apply(putEntry(e))
			}
			return nil
		})
	}
	return b.Store.Fill(ctx, req, write)
}

func (b *Broken) Enqueue(ctx context.Context, item seqstore.ManualItem) error {
	if b.Flaw == FillsBehindSeals {
		_, _ = b.Fill(ctx, seqstore.FillRequest{Stream: item.Stream, Seq: item.Seq, Op: item.Op, Payload: item.Payload}, nil)
	}
	return b.Store.Enqueue(ctx, item)
}
