package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// The checks whose names begin with Manager have a manager of package leasing between
// them and the provider, as applications do: what the manager promises has to be true
// over this provider, with its capabilities, abilities and errors. A line between the
// two loses, delays and repeats what passes. How long that takes is exact in virtual time
// only, so most of them need Harness.Virtual.

// verb is a method of the provider.
type verb string

const (
	acquires verb = "Acquire"
	renews   verb = "Renew"
	batches  verb = "RenewBatch"
	releases verb = "Release"
	waits    verb = "Wait"
)

// bend is what a line does to the n-th call of a verb, from 1. call passes it on; what it
// returned is lost if bend returns another error.
type bend func(ctx context.Context, n int, call func(context.Context) error) error

var errNoReply = fmt.Errorf("%w: the line has lost it", abstractions.ErrUnavailable)

func lostRequest(context.Context, int, func(context.Context) error) error { return errNoReply }

func lostReply(ctx context.Context, _ int, call func(context.Context) error) error {
	_ = call(ctx)
	return errNoReply
}

// slowReply delays replies.
func slowReply(by time.Duration) bend {
	return func(ctx context.Context, _ int, call func(context.Context) error) error {
		err := call(ctx)
		time.Sleep(by)
		return err
	}
}

// slowRequest has requests arrive late, also after their context has ended.
func slowRequest(by time.Duration) bend {
	return func(ctx context.Context, _ int, call func(context.Context) error) error {
		time.Sleep(by)
		return call(context.WithoutCancel(ctx))
	}
}

// refused answers with an error.
func refused(err error) bend {
	return func(context.Context, int, func(context.Context) error) error { return err }
}

// unanswered lets a call wait for its context.
func unanswered(ctx context.Context, _ int, _ func(context.Context) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// first bends the first n calls.
func first(n int, b bend) bend {
	return func(ctx context.Context, i int, call func(context.Context) error) error {
		if i > n {
			return call(ctx)
		}
		return b(ctx, i, call)
	}
}

// line is a provider whose requests and replies a check bends.
type line struct {
	abstractions.Provider
	hidden   []verb // abilities that it does not have
	heedless bool   // it says that it does not heed contexts

	mu             sync.Mutex
	deaf           bool                            // its waiters get no hints
	grant          func(grant *abstractions.Grant) // changes each
	hang           map[string]bool                 // names whose renewals are not answered
	hung, mostHung int                             // at a time

	bends    map[verb]bend
	sent     map[verb][]time.Time
	requests map[verb][]any
	states   map[string]*lineState // the latest, by ID
	stale    int                   // requests with another
}

// lineState is the state of a grant, by which the line knows it again.
type lineState struct{ inner any }

func (l *line) bend(v verb, b bend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bends[v], l.sent[v], l.requests[v] = b, nil, nil
}

// times are when calls of a verb were sent, since it was bent.
func (l *line) times(v verb) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent[v])
}

func (l *line) all(v verb) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests[v])
}

// pass passes a call on, as the check has it.
func pass[Q, R any](ctx context.Context, l *line, v verb, send func(context.Context, Q) (R, error), req Q) (R, error) {
	l.mu.Lock()
	l.sent[v], l.requests[v] = append(l.sent[v], time.Now()), append(l.requests[v], req)
	b, n := l.bends[v], len(l.sent[v])
	l.mu.Unlock()
	if b == nil {
		return send(ctx, req)
	}
	var none, reply R
	var answer error
	err := b(ctx, n, func(ctx context.Context) error {
		reply, answer = send(ctx, req)
		return answer
	})
	if err != nil || answer != nil {
		return none, errors.Join(err)
	}
	return reply, nil
}

// granted changes a grant on its way to the manager.
func (l *line) granted(g abstractions.Grant, err error) (abstractions.Grant, error) {
	if err != nil {
		return g, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := &lineState{inner: g.State}
	g.State, l.states[g.ID] = state, state
	if l.grant != nil {
		l.grant(&g)
	}
	return g, nil
}

// inner is a state on its way to the provider.
func (l *line) inner(id string, state any) any {
	own, ok := state.(*lineState)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.states[id] != own {
		l.stale++
	}
	return own.inner
}

func (l *line) Capabilities() abstractions.Capabilities {
	caps := l.Provider.Capabilities()
	caps.HeedsContext = caps.HeedsContext && !l.heedless
	return caps
}

func (l *line) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return l.granted(pass(ctx, l, acquires, l.Provider.Acquire, req))
}

func (l *line) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	req.State = l.inner(req.ID, req.State)
	if l.hangs(req.Name, 1) {
		defer l.hangs(req.Name, -1)
		return abstractions.Grant{}, unanswered(ctx, 0, nil)
	}
	return l.granted(pass(ctx, l, renews, l.Provider.Renew, req))
}

func (l *line) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	req.State = l.inner(req.ID, req.State)
	_, err := pass(ctx, l, releases, func(ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, l.Provider.Release(ctx, req)
	}, req)
	return err
}

// hangs counts a request more, or less, if it is one that hangs.
func (l *line) hangs(name string, more int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hang[name] {
		l.hung += more
		l.mostHung = max(l.mostHung, l.hung)
	}
	return l.hang[name]
}

// change changes what the line does to requests.
func (l *line) change(how func(l *line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(l)
}

// As answers for the abilities that managers use.
func (l *line) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		if inner, ok := abstractions.As[abstractions.BatchRenewer](l.Provider); ok && !l.hides(batches) {
			*ability = lineBatches{l, inner}
			return true
		}
	case *abstractions.Waiter:
		if inner, ok := abstractions.As[abstractions.Waiter](l.Provider); ok && !l.hides(waits) {
			*ability = lineWaits{l, inner}
			return true
		}
	}
	return false
}

func (l *line) hides(v verb) bool {
	return slices.Contains(l.hidden, v)
}

type lineBatches struct {
	l     *line
	inner abstractions.BatchRenewer
}

func (b lineBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].State = b.l.inner(reqs[i].ID, reqs[i].State)
	}
	results, err := pass(ctx, b.l, batches, b.inner.RenewBatch, reqs)
	for i := range results {
		if results[i].Err == nil {
			results[i].Grant, _ = b.l.granted(results[i].Grant, nil)
		}
	}
	return results, err
}

type lineWaits struct {
	l     *line
	inner abstractions.Waiter
}

func (w lineWaits) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	wakeups, err := pass(ctx, w.l, waits, w.inner.Wait, req)
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if err == nil && w.l.deaf {
		wakeups.C = make(chan struct{}, 1)
	}
	return wakeups, err
}

// managed is a manager, its line to the provider, and what its observer was told.
type managed struct {
	leasing.Manager
	*line
	e *env
	eventLog
}

// eventLog is what an observer was told.
type eventLog struct {
	mu     sync.Mutex
	events []leasing.Event
}

func (l *eventLog) observe(event leasing.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
}

// told are the events of some kinds, in order; all without any.
func (l *eventLog) told(kinds ...leasing.EventKind) (events []leasing.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range l.events {
		if len(kinds) == 0 || slices.Contains(kinds, event.Kind) {
			events = append(events, event)
		}
	}
	return events
}

// manage makes a manager over a client of the backend. Its requests can be bent before
// the first is sent. Without Options.Random there is no jitter.
func (e *env) manage(p abstractions.Provider, o leasing.Options, with ...func(*line)) *managed {
	e.t.Helper()
	m := &managed{e: e, line: &line{
		Provider: p, bends: map[verb]bend{}, sent: map[verb][]time.Time{}, requests: map[verb][]any{}, states: map[string]*lineState{},
	}}
	for _, change := range with {
		change(m.line)
	}
	if o.TTL == 0 {
		o.TTL = e.short
	}
	if o.Random == nil {
		o.Random = func() float64 { return 0 }
	}
	var err error
	m.Manager, err = leasing.NewManager(m.line, o)
	e.NoError(err, "a manager over this provider")
	m.Subscribe(m.observe)
	e.t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.Manager.Close(ended)
	})
	return m
}

// hiding takes abilities from a line.
func hiding(v ...verb) func(*line) { return func(l *line) { l.hidden = v } }

func heedless(l *line) { l.heedless = true }

// Capabilities and Close are the manager's.
func (m *managed) Capabilities() abstractions.Capabilities { return m.Manager.Capabilities() }
func (m *managed) Close(ctx context.Context) error         { return m.Manager.Close(ctx) }

// Acquire is the manager's.
func (m *managed) Acquire(ctx context.Context, name string, o *leasing.AcquireOptions) (leasing.Lease, error) {
	return m.Manager.Acquire(ctx, name, o)
}

// Inspect and Break are the manager's too.
func (m *managed) Inspect(ctx context.Context, name string) (leasing.Record, error) {
	return m.Manager.Inspect(ctx, name)
}

func (m *managed) Break(ctx context.Context, name string, o *leasing.BreakOptions) (leasing.BreakResult, error) {
	return m.Manager.Break(ctx, name, o)
}

// told are the events that have been told by now.
func (m *managed) told(kinds ...leasing.EventKind) []leasing.Event {
	m.e.soon()
	return m.eventLog.told(kinds...)
}

// get acquires a free name.
func (m *managed) get(name string, o *leasing.AcquireOptions) leasing.Lease {
	m.e.t.Helper()
	lease, err := m.TryAcquire(m.e.t.Context(), name, o)
	m.e.NoError(err, "TryAcquire of %q", name)
	return lease
}

// try is TryAcquire, whose lease nobody keeps.
func (m *managed) try(ctx context.Context, name string) error {
	_, err := m.TryAcquire(ctx, name, nil)
	return err
}

// soon lets pass what happens at once.
func (e *env) soon() { e.pause(time.Millisecond) }

// pause lets virtual time pass.
func (e *env) pause(d time.Duration) { time.Sleep(d) }

// window bounds how long a lease of a TTL may be trusted: the default margin is a
// hundredth of it, and a little.
func window(ttl time.Duration) time.Duration { return ttl - ttl/100 }

// isLostBy waits for the loss of a lease. It must come when the trust is over that began
// at from, and hardly sooner.
func (m *managed) isLostBy(lease leasing.Lease, from time.Time, ttl time.Duration, reasons ...abstractions.LostReason) {
	m.e.t.Helper()
	<-lease.Done()
	trusted := time.Since(from)
	m.e.LessOrEqual(trusted, window(ttl), "trust in a lease of %v, since its request was sent", ttl)
	m.e.Greater(trusted, ttl*97/100, "trust in a lease of %v, since its request was sent", ttl)
	m.isLost(lease, reasons...)
}

// isLost says that all that a lost lease is asked tells of its loss.
func (m *managed) isLost(lease leasing.Lease, reasons ...abstractions.LostReason) {
	m.e.t.Helper()
	ctx := m.e.t.Context()
	for what, err := range map[string]error{
		"Err": lease.Err(), "the context's cause": context.Cause(lease.Context()), "Renew": lease.Renew(ctx), "Release": lease.Release(ctx),
	} {
		var lost *abstractions.LostError
		m.e.ErrorAs(err, &lost, what)
		if len(reasons) > 0 {
			m.e.Contains(reasons, lost.Reason, what)
		}
	}
	m.e.Zero(lease.Remaining())
}

// isAlive says that a lease is held, as its manager and the backend see it.
func (m *managed) isAlive(lease leasing.Lease) {
	m.e.t.Helper()
	m.e.NoError(lease.Err(), lease.Name())
	m.e.Positive(lease.Remaining(), lease.Name())
	record := m.e.inspect(lease.Name())
	m.e.True(record.Held, "%q is held", lease.Name())
	m.e.Equal(lease.Token(), record.Token, lease.Name())
}

// isTaken says that nobody else gets the name.
func (e *env) isTaken(name, why string) {
	e.t.Helper()
	_, err := e.try(e.peer, e.request(name))
	e.held(err, why)
}

// begin runs f beside the check and returns what it is to return.
func begin[T any](e *env, f func() T) <-chan T {
	done := make(chan T, 1)
	e.t.Go(func() { done <- f() })
	return done
}

// within waits for what should come in some time.
func within[T any](e *env, d time.Duration, from <-chan T, what string) (value T) {
	e.t.Helper()
	select {
	case value = <-from:
	case <-time.After(d):
		e.Fail(what + ": not within " + d.String())
	}
	return value
}
