// Package cas makes a provider from a store with compare-and-set: Records implement the verbs over a Store of
// four methods, alone or together with a service's own Leases, and Naming encodes names of leases for the store.
package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

// Records implements the verbs of a provider over a Store, with one item per
// name. A driver embeds Records.
//
// Each verb reads the record, applies its rule, and writes the record on condition
// that it has not changed since the read; otherwise the verb starts over. So if an
// earlier reply was lost, or a client library sent a request twice, the read shows
// the outcome.
//
// A renewal or release with the state of the latest grant skips the read. If its
// write succeeds no other client has written since, so the claim had no successor.
// A renewal does read first if the lease has run out by this process's monotonic
// clock.
type Records struct {
	Store Store
	// Key encodes a name: see Naming.Encode.
	Key func(name string) string
	// Expiry (by the service's times) or Leases decides when a lease is over. If both
	// are nil the store belongs to one host, whose clock decides, and grants have no
	// state.
	Expiry *Expiry
	Leases Leases
	// Lagging says that a Get may show an earlier version than the latest. Each conclusion
	// that a stale read could falsify is then confirmed by a conditional write. The answer
	// ErrHeld, and a conclusion that stays true for ever, need no confirmation.
	Lagging bool
	// Classify returns the meaning of an error from a Put, like providerkit.Driver.Classify. A class
	// other than Unknown saves a read of the stored item. Default: all errors are Unknown.
	Classify func(error) providerkit.Meaning
	// Retention is the time for which a name is remembered: see providerkit.Record.Forgettable. It must
	// be longer than a write may be in flight: a write that was sent before the name was used, and that
	// creates the record after the name was forgotten, would set an earlier token. 0 means for ever.
	Retention time.Duration
	// FloorKey is the key of an item that has the highest token of all records that
	// SweepPage has deleted, for providerkit.Record.Floor: Naming.Floor, or another key that belongs
	// to no name. It is "" if the Store never deletes records, or keeps such a token by itself.
	FloorKey string
	// ManualSweep leaves sweeping to providerkit.Sweep. It is for stores whose requests cost money,
	// or whose listings can't begin at a key. Otherwise some releases also sweep a few records.
	ManualSweep bool

	format   *format // currentFormat unless a test sets another
	tokens   tokenClock
	releases atomic.Int64
}

func (s *Records) encoding() *format { return cmp.Or(s.format, currentFormat) }

// snapshot is a record as it is stored.
type snapshot struct {
	record  providerkit.Record
	written time.Time
	deadline
	item   Item
	behind bool // see Leases.Complete
	host   hostclock.Time
	// at is the time of the read, or a time just before the write was sent, on this process's monotonic
	// clock.
	at time.Time
}

// Acquire makes one attempt to acquire a name: see abstractions.Provider.
func (s *Records) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	after, err := s.change(ctx, req.Name, nil, s.aboveFloor, func(r *providerkit.Record) change { return s.confirm(r.Acquire(req)) })
	if err != nil {
		return abstractions.Grant{}, err
	}
	if s.Expiry != nil {
		s.Expiry.forget(req.Name)
	}
	s.tokens.Given(after.record.Token, after.record.Now)
	return s.grant(after, req.TTL), nil
}

// Renew extends a claim: see abstractions.Provider.
func (s *Records) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	known := stateOf(req.State, req.Name, req.ID)
	if known != nil && (known.record.Token != req.Token || time.Since(known.at) >= fromMicros(known.Lasts)) {
		known = nil
	}
	after, err := s.change(ctx, req.Name, known, s.read, func(r *providerkit.Record) change { return s.confirm(r.Renew(req)) })
	if err != nil {
		return abstractions.Grant{}, err
	}
	return s.grant(after, req.TTL), nil
}

// Release gives a claim up: see abstractions.Provider. Some releases also sweep a few records.
func (s *Records) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := s.change(ctx, req.Name, stateOf(req.State, req.Name, req.ID), s.read, func(r *providerkit.Record) change { return change{Change: r.Release(req)} })
	if err == nil {
		s.sweepSome(ctx, s.Key(req.Name))
	}
	return err
}

// Break ends the claim of any holder: see abstractions.Provider. It ends the lease that it reads first, but not a lease that
// follows during the call.
func (s *Records) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	var result abstractions.BreakResult
	var first providerkit.Record // the lease that the first read found
	after, err := s.change(ctx, req.Name, nil, s.read, func(r *providerkit.Record) change {
		if first.ID != "" && !(r.Held() && r.ID == first.ID && r.Token == first.Token) {
			if s.Lagging && r.Held() { // perhaps held since before the call
				err := fmt.Errorf("%w: the lease with token %d has ended, and the name has a lease with token %d: inspect the name again", abstractions.ErrUnavailable, first.Token, r.Token)
				return change{Change: providerkit.Change{Err: err}}
			}
			_, broken := r.Ended.Find(first.ID) // perhaps by our own write, whose reply was lost
			result = abstractions.BreakResult{WasHeld: broken, Token: first.Token}
			return s.confirm(providerkit.Change{})
		}
		if r.Held() && (req.IfToken == 0 || req.IfToken == r.Token) {
			first = r.Clone()
		}
		var c providerkit.Change
		result, c = r.Break(req)
		if s.Leases != nil && c.Err == nil && r.ID != "" && !result.WasHeld { // a late copy of its renewal would bring the lease back
			c.Write = true
			return change{c, true}
		}
		return s.confirm(c)
	})
	if err != nil {
		return result, err
	}
	if result.Remaining > 0 {
		result.Remaining = after.record.Left
		if s.Expiry != nil { // the process that broke the lease watches its end
			s.Expiry.watchedFor(holderState{Name: req.Name, Write: after.Write}, time.Now())
		}
	}
	return result, nil
}

// Inspect returns a record: see abstractions.Provider.
func (s *Records) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	found, err := s.read(ctx, req.Name)
	if err != nil {
		return abstractions.Record{}, err
	}
	return found.record.Show(), nil
}

// Ping reads a key that no name has, if Key is Naming.Encode: see abstractions.Pinger.
func (s *Records) Ping(ctx context.Context) error {
	_, err := s.Store.Get(ctx, s.Key("")+hashMark+"ping")
	return err
}

// List returns a page of records: see abstractions.Lister. An item that is not a
// record is left out; Inspect returns the error of that item.
func (s *Records) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	query := ListQuery{Prefix: req.Prefix, After: req.After, Limit: req.PageLimit()}
	items, next, err := s.Store.List(ctx, query)
	if err != nil {
		return abstractions.ListResult{}, err
	}
	page := abstractions.ListResult{Next: next}
	for _, item := range items {
		found := s.parseListed(item)
		if found == nil || found.record.Token == 0 || !strings.HasPrefix(found.record.Name, req.Prefix) {
			continue
		}
		if shown := found.record.Show(); shown.Held || !req.HeldOnly {
			page.Records = append(page.Records, shown)
		}
	}
	return page, nil
}

// parseListed returns a snapshot of an item from a list, or nil if the item is not a record of these Records.
func (s *Records) parseListed(item Item) *snapshot {
	found, err := s.parse(item, "")
	if err != nil || abstractions.ValidateName(found.record.Name) != nil || s.Key(found.record.Name) != item.Key {
		return nil
	}
	return found
}

// maxConflicts is the number of conflicts with faster writers after which a call gives
// up. Each conflict means that another call has made progress.
const maxConflicts = 16

var errContended = fmt.Errorf("%w: other clients changed the record %d times in a row, or a cache before the store returns an old version", abstractions.ErrUnavailable, maxConflicts)

// A call retries at once after each of its first two conflicts, and after a pause from the third on.
const (
	unpausedConflicts = 2
	minConflictPause  = 2 * time.Millisecond
	maxConflictPause  = 250 * time.Millisecond
)

// pauseAfter waits after a number of consecutive conflicts. The time is jittered, and doubles with each conflict. If ctx ends,
// pauseAfter returns its error.
func pauseAfter(ctx context.Context, conflicts int) error {
	if conflicts <= unpausedConflicts {
		return nil
	}
	pause := min(minConflictPause<<(conflicts-unpausedConflicts-1), maxConflictPause)
	select {
	case <-time.After(pause/2 + rand.N(pause/2)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change is the result of a rule.
type change struct {
	providerkit.Change
	confirms bool // the write leaves the record as it is: see Records.Lagging
}

// change applies a rule to the record that read returns. known, unless nil, replaces the first read:
// the caller expects known to be the latest version. A conflict may be with this call's own write,
// if the client library has sent the write twice, so an error after a conflict is Partial.
func (s *Records) change(
	ctx context.Context, name string, known *snapshot, read func(context.Context, string) (*snapshot, error), rule func(*providerkit.Record) change,
) (after *snapshot, err error) {
	var begun bool    // an earlier write may have been applied
	var creations int // the number of attempts to create the record
	var behind string // the version of the record that its lease has yet to follow
	conflicts := 0
	for range maxConflicts {
		found, readAt := known, hostclock.Time{}
		if s.FloorKey != "" {
			readAt = hostclock.Now()
		}
		if known = nil; found != nil {
			found = found.asOfNow()
		} else if found, err = read(ctx, name); err != nil {
			return nil, partialIf(begun, err)
		}
		if found.behind {
			_, err = s.Leases.Reconcile(ctx, found.item, &found.record)
			if err != nil && !errors.Is(err, ErrConflict) {
				return nil, partialIf(begun, err)
			}
			if err == nil || found.item.Version != behind { // another call may have made the lease follow first
				behind = found.item.Version
				continue
			}
			// The lease belongs to another claim.
		}
		if found.item.Version == "" {
			if creations++; creations > maxCreations {
				return nil, errUnreadable
			}
		}
		c := rule(&found.record)
		if !c.Write {
			return found, c.Err
		}
		if found.item.Version == "" && s.FloorKey != "" && s.outlasts(readAt) {
			continue
		}
		wrote, err := s.write(ctx, found, c)
		switch {
		case err == nil:
			return found, c.Err
		case !errors.Is(err, ErrConflict):
			return nil, partialIf((begun || wrote) && !errors.Is(err, abstractions.ErrHeld), err)
		}
		begun = begun || wrote || s.Leases == nil
		conflicts++
		if err := pauseAfter(ctx, conflicts); err != nil {
			return nil, partialIf(begun, err)
		}
	}
	return nil, errContended
}

// minOutlasting is a lower bound for outlasts, since tests have very short retentions.
const minOutlasting = 10 * time.Second

// outlasts reports whether so much time has passed since a read that a name may have been used and forgotten in
// the meantime: the process may have been stopped, or its host suspended. The floor that was read may then be too
// low.
func (s *Records) outlasts(read hostclock.Time) bool {
	now := hostclock.Now()
	passed := now.Wall.Sub(read.Wall)
	if now.Boot == read.Boot {
		passed = max(passed, now.SinceBoot-read.SinceBoot)
	}
	return s.Retention > 0 && passed > max(s.Retention/2, minOutlasting)
}

// maxCreations bounds how often a call tries to create a record that its read did not show.
// Another call may have forgotten the record in between.
const maxCreations = 3

// errUnreadable ends a loop that would otherwise never end: some stores hide an item that
// has expired but is not deleted yet.
var errUnreadable = fmt.Errorf("%w: the record can neither be created nor read", abstractions.ErrUnavailable)

func partialIf(begun bool, err error) error {
	if begun {
		return providerkit.Partial(err)
	}
	return err
}

// confirm makes a conclusion from a read that may lag depend on a write, which leaves the record as it is and is refused if the
// read did lag. ErrHeld needs no such write, nor does a fact that stays true: that an ID has ended, or that a later token was
// granted.
func (s *Records) confirm(c providerkit.Change) change {
	var lost *abstractions.LostError
	switch {
	case !s.Lagging, errors.Is(c.Err, abstractions.ErrHeld), errors.Is(c.Err, abstractions.ErrReleased):
	case errors.As(c.Err, &lost) && (lost.Reason == abstractions.LostTaken || lost.Reason == abstractions.LostBroken):
	case !c.Write:
		c.Write = true
		return change{c, true}
	}
	return change{Change: c}
}

// write stores a snapshot whose record a rule has changed, and makes the service's lease
// follow, if the service has leases. After an ambiguous outcome it reads the stored item,
// unless the write leaves the record as it is, or a lease has to follow. wrote says that the record
// was stored by this call, whatever the result of the later steps.
func (s *Records) write(ctx context.Context, found *snapshot, c change) (wrote bool, err error) {
	s.setDeadline(found, c.Deadline)
	r := &found.record
	data, err := s.encoding().encode(r, found.deadline)
	if err != nil {
		return false, err
	}
	found.at = time.Now() // a lease begins with its write, not with the reply
	if s.Leases == nil || c.confirms || !s.encoding().same(found.item.Data, data) {
		stored, err := s.Store.Put(ctx, found.item, r, data)
		if err != nil && s.Leases == nil && !c.confirms && s.ambiguous(err) && ctx.Err() == nil {
			if item, failed := s.Store.Get(ctx, found.item.Key); failed == nil && s.encoding().same(item.Data, data) {
				stored, err = item, nil
			}
		}
		if err != nil {
			return false, err
		}
		found.item, wrote = stored, true
	}
	if s.Leases != nil && (r.ID == "" || c.Deadline || c.Note.Kind == abstractions.HistoryBroken) { // only the holder may prolong its lease
		found.item, err = s.Leases.Reconcile(ctx, found.item, r)
	}
	return wrote, err
}

// ambiguous reports whether a Put with that error may have been applied.
func (s *Records) ambiguous(err error) bool {
	if errors.Is(err, ErrConflict) || abstractions.NotApplied(err) {
		return false
	}
	return s.Classify == nil || s.Classify(err).Class == providerkit.Unknown
}

// setDeadline sets the deadline of a record that is about to be written. A write without a new deadline does not prolong the
// lease, although the service's time of that write is later.
func (s *Records) setDeadline(found *snapshot, changed bool) {
	d, r := &found.deadline, &found.record
	switch {
	case r.ID == "":
		found.deadline = deadline{}
	case changed && s.Leases != nil: // the same in each renewal, which therefore needs no write
		d.Lasts = micros(r.Left)
	case changed && s.Expiry == nil:
		host := found.host.Deadline(r.Left)
		d.Host = &host
	case changed:
		d.Write, d.Lasts, d.Ends = abstractions.NewID(), micros(r.Left), 0
	case s.Expiry != nil && d.Ends == 0 && d.Lasts != 0 && !found.written.IsZero():
		d.Ends = unixMicro(found.written) + d.Lasts
	}
}

func (s *Records) read(ctx context.Context, name string) (*snapshot, error) {
	item, err := s.Store.Get(ctx, s.Key(name))
	if err != nil {
		return nil, err
	}
	item.Key = s.Key(name)
	return s.parse(item, name)
}

// parse makes a snapshot of an item, as of now. name is "" for an item from a list.
func (s *Records) parse(item Item, name string) (*snapshot, error) {
	found := &snapshot{record: providerkit.Record{Name: name}, written: item.Written, item: item, at: time.Now()}
	if item.Version != "" {
		var err error
		if found.record, found.deadline, err = s.encoding().decode(item.Data, name); err != nil {
			return nil, err
		}
	}
	r := &found.record
	if s.Expiry == nil && s.Leases == nil {
		s.settle(found)
		return found, nil
	}
	r.Now = item.Now
	if !item.Now.IsZero() && (s.Leases != nil || s.Expiry.Resolution >= time.Second) {
		r.Floor = s.tokens.Floor(item.Now, found.at)
	}
	if s.Leases != nil {
		r.Left = fromMicros(found.Lasts)
		found.behind = s.Leases.Complete(item, r)
		return found, nil
	}
	if r.ID == "" {
		return found, nil
	}
	l := holderState{Name: r.Name, Write: found.Write, TTL: fromMicros(found.Lasts), Now: item.Now}
	switch {
	case found.Ends != 0:
		l.Ends = timeOf(found.Ends)
	case !item.Written.IsZero() && l.TTL != abstractions.Infinite:
		l.Ends = item.Written.Add(l.TTL)
	}
	watch := s.Expiry
	if name == "" && !s.Expiry.isWatched(r.Name) { // an item from a list does not start a watch
		watch = &Expiry{Resolution: s.Expiry.Resolution, Skew: s.Expiry.Skew}
	}
	r.Left, r.Slack = watch.left(l)
	return found, nil
}

// settle completes a snapshot with the host's clock.
func (s *Records) settle(found *snapshot) {
	found.host = hostclock.Now()
	r := &found.record
	r.Now = found.host.Wall.UTC()
	if r.ID != "" && found.Host != nil {
		r.Unsettled = found.Host.OtherBoot(found.host)
		r.SetLeft(found.Host.Left(found.host))
	}
}

func (s *Records) grant(after *snapshot, ttl time.Duration) abstractions.Grant {
	grant := after.record.Grant(ttl)
	if s.Expiry != nil || s.Leases != nil {
		grant.State = after
	}
	return grant
}

// stateOf returns the snapshot in a grant's State, or nil if the State is not from a grant to that claim.
func stateOf(state any, name, id string) *snapshot {
	known, ok := state.(*snapshot)
	if !ok || known == nil || known.record.Name != name || known.record.ID != id {
		return nil
	}
	return known
}

// asOfNow returns a copy of a grant's state, as of now. Its lease is live if the record
// has not been written since the grant.
func (s *snapshot) asOfNow() *snapshot {
	next := *s
	next.record, next.behind = s.record.Clone(), false
	next.record.Left = max(1, fromMicros(s.Lasts))
	if !s.record.Now.IsZero() {
		next.record.Now = s.record.Now.Add(time.Since(s.at))
	}
	return &next
}
