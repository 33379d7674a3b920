package sequence

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// ledger is a stream, and its methods are the rules: pure functions of its state, the store's
// time and a request. They return a change and alter nothing. Memory applies it; the SQL stores
// state the same rules in their statements, and package sequencetest compares.
type ledger struct {
	name          string
	next          int64 // the number that is issued next
	sealed        int64
	recoveryUntil time.Time
	entries       map[int64]Entry
	open          map[int64]struct{}
	ops           map[string]int64 // an operation's own number
	events        map[int64][]Event
}

// change is what a transaction does to a ledger.
type change struct {
	put    []Entry // the first is the request's own
	next   int64   // unless 0
	again  bool    // it was made before: nothing is to be done, and write is not called
	result Entry
}

func newLedger(name string) *ledger {
	return &ledger{name: name, next: 1, entries: map[int64]Entry{}, open: map[int64]struct{}{}, ops: map[string]int64{}, events: map[int64][]Event{}}
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

// eventOf is what a change means to the audit: nothing if Event is "".
func eventOf(before, after *Entry) Event {
	event := Event{Seq: after.Seq, Who: after.Owner, Token: after.Token}
	switch {
	case after.State != before.State || after.Token != before.Token:
		event.Event = string(after.State)
	case after.Attempts != before.Attempts:
		event.Event = EventFailed
	}
	if after.State == Sealed {
		event.Who = ""
	} else if before.State == Recovering || after.State == Recovering {
		event.Who = after.ClaimOwner
	}
	return event
}

// lowestOpen is 0 if nothing is open.
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

func (l *ledger) lease(now time.Time, req LeaseRequest) (change, error) {
	granted := Granted(req.Duration, l.inRecovery(now))
	if seq := l.ops[req.Op]; seq != 0 {
		e := l.entries[seq]
		if !held(&e, now) {
			return change{}, &EndedError{e.Bare()}
		}
		e.ExpiresAt = latest(e.ExpiresAt, now.Add(granted))
		return change{put: []Entry{e}, result: e}, nil
	}
	e := Entry{
		Stream: l.name, Seq: l.next, Op: req.Op, Kind: req.Kind, Owner: req.Owner,
		State: Leased, Token: FirstToken, LeasedAt: now, ExpiresAt: now.Add(granted),
	}
	return change{put: []Entry{e}, next: l.next + 1, result: e}, nil
}

// FirstToken is a number's token until its first claim.
const FirstToken = 1

// held reports whether a lease lasts.
func held(e *Entry, now time.Time) bool { return e.State == Leased && e.ExpiresAt.After(now) }

// claimed reports whether a claim lasts.
func claimed(e *Entry, now time.Time) bool { return e.State == Recovering && e.ClaimUntil.After(now) }

// claimable reports whether an open number has run out, or its claim has lapsed, and the pause after a
// failure has passed.
func claimable(e *Entry, now time.Time) bool {
	return !held(e, now) && !claimed(e, now) && !e.NotBefore.After(now)
}

func (l *ledger) renew(now time.Time, req RenewRequest) (change, time.Duration, error) {
	e, err := l.guard("renew", now, req.Seq, req.Token, held)
	if err != nil {
		return change{}, 0, err
	}
	granted := Granted(req.Duration, l.inRecovery(now))
	e.ExpiresAt, e.Renewals = now.Add(granted), e.Renewals+1
	return change{put: []Entry{e}}, granted, nil
}

// guard returns an entry that has the token and is as it must be, or says what it is instead.
func (l *ledger) guard(op string, now time.Time, seq, token int64, must func(*Entry, time.Time) bool) (Entry, error) {
	e, ok := l.entries[seq]
	switch {
	case !ok:
		return e, ErrNotFound
	case e.Token != token || !must(&e, now):
		return e, Late(op, e, now)
	}
	return e, nil
}

func (l *ledger) save(now time.Time, req SaveRequest) (change, error) {
	e, ok := l.entries[req.Seq]
	switch {
	case !ok:
		return change{}, ErrNotFound
	case SavedBy(e, req):
		return change{again: true}, nil
	case e.Work.Phase == Completed, !e.State.Open(),
		req.Work.Phase == Partial && (e.State != Leased || e.Token != req.Token),
		req.Token > e.Token:
		return change{}, Late("save work of", e, now)
	}
	e.Work = Work{req.Work.Phase, bytes.Clone(req.Work.Data)}
	return change{put: []Entry{e}}, nil
}

func (l *ledger) commit(now time.Time, req CommitRequest) (change, error) {
	e, err := l.guard("commit", now, req.Seq, req.Token, held)
	if err != nil {
		return made(e, Repeated(e, req.Payload, CommittedBy(e, req.Token), err))
	}
	if lowest := l.lowestOpen(); req.InOrder && lowest < req.Seq {
		return change{}, &OpenError{l.name, lowest}
	}
	e.State, e.ClosedAt, e.Payload, e.Work = Committed, now, bytes.Clone(req.Payload), Work{}
	return change{put: []Entry{e}, result: e}, nil
}

// made is the change of a request that was made before, or refused.
func made(e Entry, err error) (change, error) { return change{again: true, result: e}, err }

func (l *ledger) release(now time.Time, req ReleaseRequest) change {
	e, ok := l.entries[req.Seq]
	if !ok || e.State != Leased || req.Token != e.Token {
		return change{again: true}
	}
	e.State, e.ClosedAt, e.Reason = Gap, now, ReasonReleased
	return change{put: []Entry{e}}
}

func (l *ledger) claim(now time.Time, req ClaimRequest) (change, bool) {
	for _, seq := range l.opened() {
		e := l.entries[seq]
		switch {
		case claimed(&e, now):
			return change{}, false // in order: nobody passes a live claim
		case !claimable(&e, now):
			continue
		}
		e.State, e.Token = Recovering, e.Token+1
		e.ClaimID, e.ClaimOwner, e.ClaimUntil = req.ID, req.Owner, now.Add(req.Duration)
		return change{put: []Entry{e}, result: e}, true
	}
	return change{}, false
}

// opened lists what is open, in order.
func (l *ledger) opened() []int64 {
	all := make([]int64, 0, len(l.open))
	for seq := range l.open {
		all = append(all, seq)
	}
	slices.Sort(all)
	return all
}

func (l *ledger) extend(now time.Time, req RenewRequest) (change, error) {
	e, err := l.guard("extend the claim of", now, req.Seq, req.Token, claimed)
	if err != nil {
		return change{}, err
	}
	e.ClaimUntil = now.Add(req.Duration)
	return change{put: []Entry{e}}, nil
}

func (l *ledger) releaseClaim(now time.Time, id string) change {
	for _, seq := range l.opened() {
		if e := l.entries[seq]; claimed(&e, now) && e.ClaimID == id {
			e.ClaimUntil = now
			return change{put: []Entry{e}}
		}
	}
	return change{again: true}
}

func (l *ledger) resolve(now time.Time, req ResolveRequest) (change, error) {
	e, err := l.guard("resolve", now, req.Seq, req.Token, claimed)
	if err != nil {
		by := l.entries[e.ReplacedBy]
		return made(by, Repeated(by, req.Payload, RecoveredBy(e, req), err))
	}
	outcome, reason := req.Outcome, req.Reason
	if outcome == OutcomeFailed {
		e.Attempts++
		e.LastError = req.Reason
		if req.MaxAttempts != 0 && e.Attempts >= req.MaxAttempts {
			outcome, reason = OutcomeGap, ReasonRecoveryFailed
		}
	}
	switch outcome {
	case OutcomeFailed:
		e.ClaimUntil, e.NotBefore = now, now.Add(req.RetryAfter)
		return change{put: []Entry{e}, result: e}, nil
	case OutcomeGap:
		e.State, e.ClosedAt, e.Reason, e.Uncleaned = Gap, now, cmp.Or(reason, ReasonExpired), req.Uncleaned
		return change{put: []Entry{e}, result: e}, nil
	}
	e.State, e.ClosedAt, e.ReplacedBy, e.Uncleaned, e.Work = Recovered, now, l.next, req.Uncleaned, Work{}
	by := Entry{
		Stream: l.name, Seq: l.next, Op: e.Op, Kind: e.Kind, Owner: req.Owner, State: Committed, Token: FirstToken,
		LeasedAt: now, ExpiresAt: now, ClosedAt: now, Origin: e.Seq, Payload: bytes.Clone(req.Payload),
	}
	return change{put: []Entry{e, by}, next: l.next + 1, result: by}, nil
}

func (l *ledger) fill(now time.Time, req FillRequest) (change, error) {
	e, ok := l.entries[req.Seq]
	switch {
	case !ok:
		return change{}, ErrNotFound
	case e.State != Gap || e.Op != req.Op || req.Seq <= l.sealed:
		return made(e, Repeated(e, req.Payload, FilledBy(e, req), Late("fill", e, now)))
	}
	e.State, e.FilledAt, e.Payload, e.Work = Filled, now, bytes.Clone(req.Payload), Work{}
	return change{put: []Entry{e}, result: e}, nil
}

// seal returns the new seal, and the gaps that it makes final.
func (l *ledger) seal(upTo int64) (int64, change, error) {
	if upTo == 0 {
		upTo = l.watermark()
	}
	if lowest := l.lowestOpen(); lowest != 0 && lowest <= upTo {
		return 0, change{}, &OpenError{l.name, lowest}
	}
	if upTo >= l.next {
		return 0, change{}, NotIssued(upTo)
	}
	var c change
	for seq := l.sealed + 1; seq <= upTo; seq++ {
		if e := l.entries[seq]; e.State == Gap {
			e.State = Sealed
			c.put = append(c.put, e)
		}
	}
	return max(l.sealed, upTo), c, nil
}

func (l *ledger) status(now time.Time) Status {
	s := Status{Stream: l.name, Now: now, Last: l.next - 1, Watermark: l.watermark(), Sealed: l.sealed, Open: len(l.open)}
	for _, e := range l.entries {
		if e.State == Gap {
			s.Gaps++
		}
		if e.State == Leased && !held(&e, now) {
			s.Expired++
		}
		if e.State.Open() && claimable(&e, now) {
			s.Claimable++
		}
	}
	if l.inRecovery(now) {
		s.RecoveryUntil = l.recoveryUntil
	}
	return s
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
