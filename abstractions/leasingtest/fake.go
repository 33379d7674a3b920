package leasingtest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// Fake is a manager without a provider: an implementation of [abstractions.Manager] for unit
// tests. It has no clock and sends no renewals. A lease ends when the code under test
// releases it, or when the test calls Lose or Break. The zero value is not usable.
//
//	fake := leasingtest.NewFake("worker-1")
//	worker := NewWorker(fake.Manager())
//	fake.Take("jobs/report", "worker-2") // another process holds the name
//	...
//	fake.Lose("jobs/report", leasing.LostExpired)
//
// Methods may be called from several goroutines.
type Fake struct {
	owner string

	mu       sync.Mutex
	changed  chan struct{} // closed at each change, and replaced
	tokens   map[string]int64
	held     map[string]*FakeLease
	failures []error
	watchers map[*leasing.Observer]leasing.Observer
	closed   bool
}

var (
	_ abstractions.Manager = (*Fake)(nil)
	_ abstractions.Lease   = (*FakeLease)(nil)
)

// NewFake returns a fake without leases. owner is the owner of its leases.
func NewFake(owner string) *Fake {
	return &Fake{
		owner: owner, changed: make(chan struct{}), tokens: map[string]int64{}, held: map[string]*FakeLease{},
		watchers: map[*leasing.Observer]leasing.Observer{},
	}
}

// Manager returns the manager to give to the code under test.
func (f *Fake) Manager() *leasing.Manager { return leasing.ManagerOf(f) }

// Take makes another process the holder of name until Free. It panics if the name is taken.
func (f *Fake) Take(name, owner string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[name] != nil {
		panic("leasingtest: " + name + " is taken")
	}
	f.hold(context.Background(), name, owner, leasing.AcquireOptions{})
}

// Free ends the lease that Take has made. It panics if the code under test holds the name.
func (f *Fake) Free(name string) {
	f.mu.Lock()
	l := f.held[name]
	f.mu.Unlock()
	if l != nil && l.owner == f.owner {
		panic("leasingtest: " + name + " is held by the code under test: see Lose")
	}
	f.finish(name, leasing.ErrReleased)
}

// Lose ends the lease of name in the code under test: the lease's context ends with a
// *leasing.LostError as its cause, and the name is free. It does nothing if the name is free.
func (f *Fake) Lose(name string, reason leasing.LostReason) {
	f.finish(name, &leasing.LostError{Reason: reason})
}

// Fail makes the next Acquire, TryAcquire, Adopt or Renew return err. Each call adds one failure.
func (f *Fake) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, err)
}

// Held returns the names that are held by the code under test or by another process, sorted.
func (f *Fake) Held() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.held))
}

// hold makes a lease. Caller holds mu.
func (f *Fake) hold(ctx context.Context, name, owner string, o leasing.AcquireOptions) *FakeLease {
	f.tokens[name]++
	l := &FakeLease{
		fake: f, name: name, owner: owner, id: abstractions.NewID(), token: f.tokens[name], ttl: cmp.Or(o.TTL, 30*time.Second),
		acquired: time.Now(), metadata: maps.Clone(o.Metadata), observer: o.Observer,
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.held[name] = l
	f.change()
	return l
}

// change wakes the waiters. Caller holds mu.
func (f *Fake) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fails returns ErrClosed after Close, and otherwise the next error that Fail has queued, or nil. Caller
// holds mu.
func (f *Fake) fails() (err error) {
	if f.closed {
		return leasing.ErrClosed
	}
	if len(f.failures) > 0 {
		err, f.failures = f.failures[0], f.failures[1:]
	}
	return err
}

// finish ends the lease of name with a cause.
func (f *Fake) finish(name string, cause error) {
	f.mu.Lock()
	l := f.held[name]
	if l != nil {
		l.cancel(cause)
		delete(f.held, name)
		f.change()
	}
	f.mu.Unlock()
	if l == nil {
		return
	}
	e := leasing.Event{Kind: leasing.EventReleased}
	if lost, is := errors.AsType[*leasing.LostError](cause); is {
		e.Kind, e.Reason, e.BrokenBy, e.BreakReason, e.Err = leasing.EventLost, lost.Reason, lost.BrokenBy, lost.BreakReason, lost
	} else if errors.Is(cause, leasing.ErrHandedOver) {
		e.Kind = leasing.EventHandedOver
	}
	f.notify(l, e)
}

// notify sends an event to the observers.
func (f *Fake) notify(l *FakeLease, e leasing.Event) {
	e.Time, e.Coalesced, e.Name, e.Owner, e.Token, e.TTL = time.Now(), 1, l.name, l.owner, l.token, l.TTL()
	e.Fingerprint = abstractions.FingerprintOf(l.id)
	f.mu.Lock()
	watchers := slices.Collect(maps.Values(f.watchers))
	f.mu.Unlock()
	if l.observer != nil {
		watchers = append(watchers, l.observer)
	}
	for _, observer := range watchers {
		observer(e)
	}
}

// TryAcquire makes a lease of a free name. If the name is held, the error matches ErrHeld.
func (f *Fake) TryAcquire(ctx context.Context, name string, options leasing.AcquireOptions) (abstractions.Lease, error) {
	l, err := f.try(ctx, name, options)
	if err != nil {
		return nil, &leasing.Error{Op: "acquire", Provider: "fake", Name: name, Err: err}
	}
	return l, nil
}

func (f *Fake) try(ctx context.Context, name string, options leasing.AcquireOptions) (*FakeLease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := leasing.ValidateName(name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	if err := f.fails(); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	if other := f.held[name]; other != nil {
		f.mu.Unlock()
		return nil, &leasing.HeldError{Holder: other.record(), ByThisManager: other.owner == f.owner}
	}
	l := f.hold(ctx, name, f.owner, options)
	f.mu.Unlock()
	f.notify(l, leasing.Event{Kind: leasing.EventAcquired})
	return l, nil
}

// Acquire waits until the name is free, ctx ends, or options.WaitLimit has passed.
func (f *Fake) Acquire(ctx context.Context, name string, options leasing.AcquireOptions) (abstractions.Lease, error) {
	var limit <-chan time.Time
	if options.WaitLimit > 0 {
		limit = time.After(options.WaitLimit)
	}
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		l, err := f.try(ctx, name, options)
		if err == nil {
			return l, nil
		}
		if errors.Is(err, leasing.ErrHeld) {
			select {
			case <-changed:
				continue
			case <-limit:
			case <-ctx.Done():
				err = errors.Join(context.Cause(ctx), err)
			}
		}
		return nil, &leasing.Error{Op: "acquire", Provider: "fake", Name: name, Err: err}
	}
}

// Adopt makes a lease of a free name under the ID and token of handover.
func (f *Fake) Adopt(ctx context.Context, handover leasing.Handover, options leasing.AdoptOptions) (abstractions.Lease, error) {
	l, err := f.try(ctx, handover.Name, leasing.AcquireOptions{TTL: options.TTL, Metadata: options.Metadata, Observer: options.Observer})
	if err != nil {
		return nil, &leasing.Error{Op: "adopt", Provider: "fake", Name: handover.Name, Err: err, Fingerprint: leasing.FingerprintOf(handover.ID)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l.id, l.token = handover.ID, handover.Token
	f.tokens[l.name] = max(f.tokens[l.name], l.token)
	return l, nil
}

// Inspect returns the record of a name.
func (f *Fake) Inspect(_ context.Context, name string) (leasing.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.held[name]; l != nil {
		return l.record(), nil
	}
	return leasing.Record{Name: name, Token: f.tokens[name], Now: time.Now()}, nil
}

// Waiters returns leasing.ErrUnsupported.
func (f *Fake) Waiters(context.Context, string) ([]leasing.Waiting, error) {
	return nil, leasing.ErrUnsupported
}

// List iterates over the names that have had a lease.
func (f *Fake) List(ctx context.Context, options leasing.ListOptions) iter.Seq2[leasing.Record, error] {
	return func(yield func(leasing.Record, error) bool) {
		f.mu.Lock()
		names := slices.Sorted(maps.Keys(f.tokens))
		f.mu.Unlock()
		for _, name := range names {
			record, err := f.Inspect(ctx, name)
			if !strings.HasPrefix(name, options.Prefix) || options.HeldOnly && !record.Held {
				continue
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// History yields leasing.ErrUnsupported.
func (f *Fake) History(context.Context, string, leasing.HistoryOptions) iter.Seq2[leasing.HistoryEntry, error] {
	return func(yield func(leasing.HistoryEntry, error) bool) {
		yield(leasing.HistoryEntry{}, leasing.ErrUnsupported)
	}
}

// Break ends the lease of a name at once.
func (f *Fake) Break(_ context.Context, name string, options leasing.BreakOptions) (leasing.BreakResult, error) {
	f.mu.Lock()
	l, token := f.held[name], f.tokens[name]
	f.mu.Unlock()
	if options.IfToken != 0 && options.IfToken != token {
		return leasing.BreakResult{}, &leasing.Error{Op: "break", Provider: "fake", Name: name, Err: leasing.ErrStale}
	}
	f.finish(name, &leasing.LostError{Reason: leasing.LostBroken, BrokenBy: cmp.Or(options.Actor, f.owner), BreakReason: options.Reason})
	return leasing.BreakResult{WasHeld: l != nil, Token: token}, nil
}

// Subscribe calls observer for each event, on the goroutine of the call that causes the event.
func (f *Fake) Subscribe(observer leasing.Observer) (unsubscribe func()) {
	key := &observer
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers[key] = observer
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, key)
	}
}

// Health reports Healthy until Close.
func (f *Fake) Health(context.Context) leasing.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := leasing.Health{Status: leasing.Healthy, Provider: "fake", Owner: f.owner, Held: len(f.held), Closed: f.closed}
	if f.closed {
		h.Status = leasing.Unhealthy
	}
	return h
}

// Capabilities returns capabilities that allow every TTL.
func (f *Fake) Capabilities() leasing.Capabilities {
	return leasing.Capabilities{Provider: "fake", Infinite: true, Clock: "none"}
}

// Close cancels the contexts of the leases of the code under test, and waits until they are released, or
// until ctx ends.
func (f *Fake) Close(ctx context.Context) error {
	for {
		f.mu.Lock()
		f.closed = true
		changed, inUse := f.changed, []string(nil)
		for name, l := range f.held {
			if l.owner == f.owner {
				l.cancel(leasing.ErrClosed)
				inUse = append(inUse, name)
			}
		}
		f.mu.Unlock()
		if len(inUse) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			slices.Sort(inUse)
			return &leasing.CloseError{InUse: inUse, Err: context.Cause(ctx)}
		}
	}
}

// FakeLease is a lease of a Fake.
type FakeLease struct {
	fake        *Fake
	name, owner string
	id          string
	token       int64
	acquired    time.Time
	observer    leasing.Observer
	ctx         context.Context
	cancel      context.CancelCauseFunc

	// Guarded by fake.mu.
	ttl      time.Duration
	renewals int
	metadata map[string]string
}

// record describes the lease. Caller holds fake.mu.
func (l *FakeLease) record() leasing.Record {
	return leasing.Record{
		Name: l.name, Held: true, Fingerprint: abstractions.FingerprintOf(l.id), Owner: l.owner, Token: l.token, TTL: l.ttl,
		Metadata: maps.Clone(l.metadata), AcquiredAt: l.acquired, Now: time.Now(),
	}
}

// Name returns the name of the lease.
func (l *FakeLease) Name() string { return l.name }

// ID returns the ID of the claim.
func (l *FakeLease) ID() string { return l.id }

// Owner returns the owner of the Fake.
func (l *FakeLease) Owner() string { return l.owner }

// Token returns 1 for the first lease of the name, and one more for each later lease. An adopted lease
// keeps its token.
func (l *FakeLease) Token() int64 { return l.token }

// TTL returns the TTL of the latest SetTTL, or else of the options, by default 30 s.
func (l *FakeLease) TTL() time.Duration {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	return l.ttl
}

// AcquiredAt returns the time of the acquire.
func (l *FakeLease) AcquiredAt() time.Time { return l.acquired }

// Remaining returns the TTL while the lease is held, and 0 afterwards.
func (l *FakeLease) Remaining() time.Duration {
	if l.ctx.Err() != nil {
		return 0
	}
	return l.TTL()
}

// Renewals returns the number of successful calls to Renew, SetMetadata and SetTTL.
func (l *FakeLease) Renewals() int {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	return l.renewals
}

// Metadata returns the metadata.
func (l *FakeLease) Metadata() map[string]string {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	return maps.Clone(l.metadata)
}

// Context returns a context that ends with the lease.
func (l *FakeLease) Context() context.Context { return l.ctx }

// Err returns the cause of the context's end, or nil.
func (l *FakeLease) Err() error { return context.Cause(l.ctx) }

// Renew returns the error set by Fake.Fail, or the cause of the lease's end.
func (l *FakeLease) Renew(context.Context) error {
	return l.renew(func() {})
}

func (l *FakeLease) renew(change func()) error {
	l.fake.mu.Lock()
	defer l.fake.mu.Unlock()
	err := l.Err()
	if l.fake.held[l.name] == l {
		err = l.fake.fails()
		if errors.Is(err, leasing.ErrClosed) {
			err = nil // a lease is renewed until its release
		}
	}
	if err != nil {
		return &leasing.Error{Op: "renew", Provider: "fake", Name: l.name, Err: err, Fingerprint: leasing.FingerprintOf(l.id)}
	}
	l.renewals++
	change()
	return nil
}

// SetMetadata replaces the metadata.
func (l *FakeLease) SetMetadata(_ context.Context, metadata map[string]string) error {
	return l.renew(func() { l.metadata = maps.Clone(metadata) })
}

// SetTTL changes the TTL.
func (l *FakeLease) SetTTL(_ context.Context, ttl time.Duration) error {
	return l.renew(func() { l.ttl = ttl })
}

// Release frees the name. If the lease was lost, the error wraps its *leasing.LostError.
func (l *FakeLease) Release(context.Context) error {
	return l.end("release", leasing.ErrReleased)
}

// HandOver frees the name in the fake, so that Adopt can take it over.
func (l *FakeLease) HandOver(context.Context) (leasing.Handover, error) {
	return leasing.Handover{Name: l.name, ID: l.id, Token: l.token}, l.end("hand over", leasing.ErrHandedOver)
}

func (l *FakeLease) end(op string, cause error) error {
	l.fake.mu.Lock()
	mine := l.fake.held[l.name] == l
	l.fake.mu.Unlock()
	if mine {
		l.fake.finish(l.name, cause)
		return nil
	}
	if err := l.Err(); errors.Is(err, leasing.ErrLost) {
		return &leasing.Error{Op: op, Provider: "fake", Name: l.name, Err: err, Fingerprint: leasing.FingerprintOf(l.id)}
	}
	return nil
}
