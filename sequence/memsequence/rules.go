package memsequence

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// ledger is a stream. Its methods that return a change are the rules: pure functions of its state,
// the store's time and a request. They alter nothing. Store applies the change. The SQL stores
// express the same rules in their statements, and package sequencetest compares both.
type ledger struct {
	name          string
	next          int64 // the next number to issue
	sealed        int64
	epoch         string
	recoveryUntil time.Time
	entries       map[int64]seqstore.Entry
	open          map[int64]struct{}
	ops           map[string]int64 // an operation's own number
	events        map[int64][]seqstore.Event
}

// change is the effect of a transaction on a ledger.
type change struct {
	put    []seqstore.Entry // the first is the entry of the request
	next   int64            // unless 0
	again  bool             // the change was made before: do nothing, and do not call write
	result seqstore.Entry
}

func newLedger(name string) *ledger {
	return &ledger{name: name, next: 1, entries: map[int64]seqstore.Entry{}, open: map[int64]struct{}{}, ops: map[string]int64{}, events: map[int64][]seqstore.Event{}}
}

func (l *ledger) apply(c change) {
	for _, e := range c.put {
		before := l.entries[e.Seq]
		if event := eventOf(&before, &e); event.Event != "" {
			event.At = time.Now()
			l.events[e.Seq] = append(l.events[e.Seq], event)
		}
		l.entries[e.Seq] = e
		delete(l.open, e.Seq)
		if e.State.Open() {
			l.open[e.Seq] = struct{}{}
		}
		if e.Origin == 0 {
			l.ops[e.Op] = e.Seq
		}
	}
	l.next = cmp.Or(c.next, l.next)
}

// eventOf returns a change's event for the audit. If there is none, its Event is "".
func eventOf(before, after *seqstore.Entry) seqstore.Event {
	event := seqstore.Event{Seq: after.Seq, Who: after.Owner, Token: after.Token}
	switch {
	case after.State != before.State || after.Token != before.Token:
		event.Event = string(after.State)
	case after.Attempts != before.Attempts:
		event.Event = seqstore.EventFailed
	}
	if after.State == seqstore.Sealed {
		event.Who = ""
	} else if before.State == seqstore.Recovering || after.State == seqstore.Recovering {
		event.Who = after.ClaimOwner
	}
	return event
}

// lowestOpen returns the lowest open number, or 0 if none is open.
func (l *ledger) lowestOpen() (lowest int64) {
	for seq := range l.open {
		if lowest == 0 || seq < lowest {
			lowest = seq
		}
	}
	return lowest
}

func (l *ledger) watermark() int64 {
	if lowest := l.lowestOpen(); lowest != 0 {
		return lowest - 1
	}
	return l.next - 1
}

func (l *ledger) inRecovery(now time.Time) bool { return l.recoveryUntil.After(now) }

func (l *ledger) lease(now time.Time, req seqstore.LeaseRequest) (change, error) {
	granted := seqstore.Granted(req.Duration, l.inRecovery(now))
	if seq := l.ops[req.Op]; seq != 0 {
		e := l.entries[seq]
		if !isHeld(&e, now) {
			return change{}, &seqstore.EndedError{Entry: e.Bare()}
		}
		e.ExpiresAt = latest(e.ExpiresAt, now.Add(granted))
		return change{put: []seqstore.Entry{e}, result: e}, nil
	}
	e := seqstore.Entry{
		Stream: l.name, Seq: l.next, Op: req.Op, Kind: req.Kind, Owner: req.Owner,
		State: seqstore.Leased, Token: seqstore.FirstToken, LeasedAt: now, ExpiresAt: now.Add(granted),
	}
	return change{put: []seqstore.Entry{e}, next: l.next + 1, result: e}, nil
}

// isHeld reports whether the lease of a number still lasts.
func isHeld(e *seqstore.Entry, now time.Time) bool {
	return e.State == seqstore.Leased && e.ExpiresAt.After(now)
}

// isClaimed reports whether the claim of a number still lasts.
func isClaimed(e *seqstore.Entry, now time.Time) bool {
	return e.State == seqstore.Recovering && e.ClaimUntil.After(now)
}

// isClaimable reports whether an open number's lease has run out, or its claim has lapsed, and the pause
// after a failure has passed.
func isClaimable(e *seqstore.Entry, now time.Time) bool {
	return !isHeld(e, now) && !isClaimed(e, now) && !e.NotBefore.After(now)
}

func (l *ledger) renew(now time.Time, req seqstore.RenewRequest) (change, time.Duration, error) {
	e, err := l.guard("renew", now, req.Seq, req.Token, isHeld)
	if err != nil {
		return change{}, 0, err
	}
	granted := seqstore.Granted(req.Duration, l.inRecovery(now))
	e.ExpiresAt, e.Renewals = latest(e.ExpiresAt, now.Add(granted)), e.Renewals+1
	return change{put: []seqstore.Entry{e}}, granted, nil
}

// guard returns an entry that has the token and meets the condition, or an error that describes the
// entry.
func (l *ledger) guard(op string, now time.Time, seq, token int64, condition func(*seqstore.Entry, time.Time) bool) (seqstore.Entry, error) {
	e, ok := l.entries[seq]
	switch {
	case !ok:
		return e, l.notFound(seq)
	case e.Token != token || !condition(&e, now):
		return e, seqstore.Late(op, e, now)
	}
	return e, nil
}

func (l *ledger) notFound(seq int64) error {
	return seqstore.NotFound(l.name, fmt.Sprint("number ", seq))
}

func (l *ledger) save(now time.Time, req seqstore.SaveRequest) (change, error) {
	e, ok := l.entries[req.Seq]
	switch {
	case !ok:
		return change{}, l.notFound(req.Seq)
	case seqstore.SavedBy(e, req):
		return change{again: true}, nil
	case e.Work.Phase == seqstore.Completed, !e.State.Open(),
		req.Work.Phase == seqstore.Partial && (e.State != seqstore.Leased || e.Token != req.Token),
		req.Token > e.Token:
		return change{}, seqstore.Late("save work of", e, now)
	}
	e.Work = seqstore.Work{Phase: req.Work.Phase, Data: bytes.Clone(req.Work.Data)}
	if e.Work.Phase == seqstore.Completed {
		e.ClaimUntil = time.Time{} // the cleaner has not seen the work; the next claim returns the work
	}
	return change{put: []seqstore.Entry{e}}, nil
}

func (l *ledger) commit(now time.Time, req seqstore.CommitRequest) (change, error) {
	e, err := l.guard("commit", now, req.Seq, req.Token, isHeld)
	if err != nil {
		return repeated(e, seqstore.Repeated(e, req.Payload, seqstore.CommittedBy(e, req.Token), err))
	}
	if lowest := l.lowestOpen(); req.InOrder && lowest < req.Seq {
		return change{}, &seqstore.OpenError{Stream: l.name, Lowest: lowest}
	}
	e.State, e.ClosedAt, e.Payload, e.Work = seqstore.Committed, now, bytes.Clone(req.Payload), seqstore.Work{}
	return change{put: []seqstore.Entry{e}, result: e}, nil
}

func (l *ledger) commitAndLease(now time.Time, req seqstore.CommitRequest, next seqstore.LeaseRequest) (c change, leased seqstore.Entry, err error) {
	c, err = l.commit(now, req)
	if err != nil || c.again || l.ops[next.Op] != 0 {
		return c, leased, err
	}
	also, err := l.lease(now, next)
	c.put, c.next = append(c.put, also.put...), also.next
	return c, also.result, err
}

// repeated returns the result of a request that was applied before, or its refusal.
func repeated(e seqstore.Entry, err error) (change, error) {
	return change{again: true, result: e}, err
}

func (l *ledger) release(now time.Time, req seqstore.ReleaseRequest) change {
	e, ok := l.entries[req.Seq]
	if !ok || e.State != seqstore.Leased || req.Token != e.Token {
		return change{again: true}
	}
	if e.Work.Phase == seqstore.Completed {
		e.ExpiresAt = earliest(e.ExpiresAt, now)
		return change{put: []seqstore.Entry{e}}
	}
	e.State, e.ClosedAt, e.Reason = seqstore.Gap, now, seqstore.ReasonReleased
	return change{put: []seqstore.Entry{e}}
}

func (l *ledger) claim(now time.Time, req seqstore.ClaimRequest) (change, bool) {
	for _, seq := range l.openNumbers() {
		e := l.entries[seq]
		switch {
		case isClaimed(&e, now):
			return change{}, false // numbers are claimed in order: none above a live claim can be claimed
		case !isClaimable(&e, now):
			continue
		}
		e.State, e.Token = seqstore.Recovering, e.Token+1
		e.ClaimID, e.ClaimOwner, e.ClaimUntil = req.ID, req.Owner, now.Add(req.Duration)
		return change{put: []seqstore.Entry{e}, result: e}, true
	}
	return change{}, false
}

// openNumbers lists the open numbers, in order.
func (l *ledger) openNumbers() []int64 {
	return slices.Sorted(maps.Keys(l.open))
}

func (l *ledger) extend(now time.Time, req seqstore.RenewRequest) (change, error) {
	e, err := l.guard("extend the claim of", now, req.Seq, req.Token, isClaimed)
	if err != nil {
		return change{}, err
	}
	e.ClaimUntil = now.Add(req.Duration)
	return change{put: []seqstore.Entry{e}}, nil
}

func (l *ledger) releaseClaim(now time.Time, id string) change {
	for _, seq := range l.openNumbers() {
		if e := l.entries[seq]; isClaimed(&e, now) && e.ClaimID == id {
			e.ClaimUntil = now
			return change{put: []seqstore.Entry{e}}
		}
	}
	return change{again: true}
}

func (l *ledger) expire(now time.Time, seq int64) (change, error) {
	e, ok := l.entries[seq]
	switch {
	case !ok:
		return change{}, l.notFound(seq)
	case !e.State.Open():
		return change{again: true}, nil
	}
	e.ExpiresAt, e.ClaimUntil, e.NotBefore = earliest(e.ExpiresAt, now), earliest(e.ClaimUntil, now), earliest(e.NotBefore, now)
	return change{put: []seqstore.Entry{e}}, nil
}

func (l *ledger) resolve(now time.Time, req seqstore.ResolveRequest) (change, error) {
	e, err := l.guard("resolve", now, req.Seq, req.Token, isClaimed)
	if err != nil {
		by := l.entries[e.ReplacedBy]
		return repeated(by, seqstore.Repeated(by, req.Payload, seqstore.RecoveredBy(e, req), err))
	}
	outcome, reason := req.Outcome, req.Reason
	if outcome == seqstore.OutcomeFailed {
		e.Attempts++
		e.LastError = req.Reason
		e.ClaimUntil, e.NotBefore = now, now.Add(req.RetryAfter)
		if req.MaxAttempts != 0 && e.Attempts >= req.MaxAttempts {
			outcome, reason = seqstore.OutcomeGap, seqstore.ReasonRecoveryFailed
		}
	}
	switch outcome {
	case seqstore.OutcomeFailed:
		return change{put: []seqstore.Entry{e}, result: e}, nil
	case seqstore.OutcomeGap:
		e.State, e.ClosedAt, e.Reason, e.Uncleaned = seqstore.Gap, now, cmp.Or(reason, seqstore.ReasonExpired), req.Uncleaned
		return change{put: []seqstore.Entry{e}, result: e}, nil
	}
	e.State, e.ClosedAt, e.ReplacedBy, e.Uncleaned, e.Work = seqstore.Recovered, now, l.next, req.Uncleaned, seqstore.Work{}
	by := seqstore.Entry{
		Stream: l.name, Seq: l.next, Op: e.Op, Kind: e.Kind, Owner: req.Owner, State: seqstore.Committed, Token: seqstore.FirstToken,
		LeasedAt: now, ExpiresAt: now, ClosedAt: now, Origin: e.Seq, Payload: bytes.Clone(req.Payload),
	}
	return change{put: []seqstore.Entry{e, by}, next: l.next + 1, result: by}, nil
}

func (l *ledger) fill(now time.Time, req seqstore.FillRequest) (change, error) {
	e, ok := l.entries[req.Seq]
	switch {
	case !ok:
		return change{}, l.notFound(req.Seq)
	case e.State != seqstore.Gap || e.Op != req.Op || req.Seq <= l.sealed:
		return repeated(e, seqstore.Repeated(e, req.Payload, seqstore.FilledBy(e, req), seqstore.Late("fill", e, now)))
	}
	e.State, e.FilledAt, e.Payload, e.Work = seqstore.Filled, now, bytes.Clone(req.Payload), seqstore.Work{}
	return change{put: []seqstore.Entry{e}, result: e}, nil
}

// seal returns the new seal, and the change that makes gaps final.
func (l *ledger) seal(upTo int64) (int64, change, error) {
	if upTo == 0 {
		upTo = l.watermark()
	}
	if lowest := l.lowestOpen(); lowest != 0 && lowest <= upTo {
		return 0, change{}, &seqstore.OpenError{Stream: l.name, Lowest: lowest}
	}
	if upTo >= l.next {
		return 0, change{}, seqstore.NotIssued(upTo)
	}
	var c change
	for seq := l.sealed + 1; seq <= upTo; seq++ {
		if e := l.entries[seq]; e.State == seqstore.Gap {
			e.State = seqstore.Sealed
			c.put = append(c.put, e)
		}
	}
	return max(l.sealed, upTo), c, nil
}

func (l *ledger) status(now time.Time) seqstore.Status {
	s := seqstore.Status{Stream: l.name, Now: now, Last: l.next - 1, Watermark: l.watermark(), Sealed: l.sealed, Open: len(l.open)}
	for _, e := range l.entries {
		if e.State == seqstore.Gap {
			s.Gaps++
		}
		if e.State == seqstore.Leased && !isHeld(&e, now) {
			s.Expired++
		}
		if e.State.Open() && isClaimable(&e, now) {
			s.Claimable++
		}
	}
	if l.inRecovery(now) {
		s.RecoveryUntil = l.recoveryUntil
	}
	return s
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
