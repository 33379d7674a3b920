package managersuite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// managerCheck checks one promise of a manager. run gets a manager with default options.
type managerCheck struct {
	name string
	run  func(ctx context.Context, e *suite.Env, m *testManager)
}

// verb is a method of the provider.
type verb = providerkit.Method

const (
	acquires = providerkit.MethodAcquire
	renews   = providerkit.MethodRenew
	batches  = providerkit.MethodRenewBatch
	releases = providerkit.MethodRelease
	inspects = providerkit.MethodInspect
	breaks   = providerkit.MethodBreak
	waits    = providerkit.MethodWait
)

// exchange is one call on its way through a faultyProvider.
type exchange struct {
	ctx   context.Context
	n     int // the number of the call among those of its verb since the last call of traffic.setFault, from 1
	req   any // the request to send; a fault may change it
	reply any // the reply for the manager; a fault may change it
	send  func(ctx context.Context, req any) (reply any, err error)
	sent  error // of the latest send
}

// pass sends req, and records the reply.
func (x *exchange) pass() error {
	x.reply, x.sent = x.send(x.ctx, x.req)
	return x.sent
}

// fault decides what becomes of a call. If it returns an error of its own, any reply is lost.
type fault func(x *exchange) error

var errNoReply = fmt.Errorf("%w: the reply is lost", abstractions.ErrUnavailable)

func lostRequest(*exchange) error { return errNoReply }

func lostReply(x *exchange) error {
	_ = x.pass()
	return errNoReply
}

// slowReply delays replies.
func slowReply(by time.Duration) fault {
	return func(x *exchange) error {
		defer time.Sleep(by)
		return x.pass()
	}
}

// slowRequest makes requests arrive late, even after their context has ended.
func slowRequest(by time.Duration) fault {
	return func(x *exchange) error {
		time.Sleep(by)
		x.ctx = context.WithoutCancel(x.ctx)
		return x.pass()
	}
}

// refusal returns a fault that answers with err.
func refusal(err error) fault { return func(*exchange) error { return err } }

// noAnswer makes a call wait until its context ends.
func noAnswer(x *exchange) error {
	<-x.ctx.Done()
	return context.Cause(x.ctx)
}

// changedGrant changes grants on their way to the manager.
func changedGrant(change func(*abstractions.Grant)) fault {
	return func(x *exchange) error {
		err := x.pass()
		grant := x.reply.(abstractions.Grant)
		change(&grant)
		x.reply = grant
		return err
	}
}

// onFirst limits a fault to the first n calls.
func onFirst(n int, f fault) fault {
	return func(x *exchange) error {
		if x.n > n {
			return x.pass()
		}
		return f(x)
	}
}

// traffic counts the calls through a faultyProvider, and has a fault for each verb.
type traffic struct {
	recordStep func(from time.Time) // gets the start time of each call to the provider
	mu         sync.Mutex
	faults     map[verb]fault
	sent       map[verb][]sentRequest
}

type sentRequest struct {
	at  time.Time
	req any
}

// setFault sets the fault of later calls of a verb, and restarts their count. Without a fault
// all calls pass.
func (t *traffic) setFault(v verb, f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[v], t.sent[v] = f, nil
}

// requests returns the requests of a verb since the last call of setFault for the verb.
func (t *traffic) requests(v verb) []sentRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sent[v])
}

// handle records a call, and applies the fault of its verb.
func (t *traffic) handle(ctx context.Context, x *providerkit.Exchange) (reply any, err error) {
	t.mu.Lock()
	t.sent[x.Method] = append(t.sent[x.Method], sentRequest{time.Now(), x.Request})
	f, n := t.faults[x.Method], len(t.sent[x.Method])
	t.mu.Unlock()
	exchanged := &exchange{ctx: ctx, n: n, req: x.Request, send: func(ctx context.Context, req any) (any, error) {
		defer t.recordStep(time.Now())
		return x.Send(ctx, req)
	}}
	if f == nil {
		f = (*exchange).pass
	}
	if err = f(exchanged); err != nil && !errors.Is(err, exchanged.sent) {
		return nil, err
	}
	return exchanged.reply, err
}

// faultyProvider is a provider whose calls can have faults. It has the provider's abilities except Pinger, so a
// manager's Health inspects a name.
type faultyProvider struct {
	*providerkit.Intercepted
	hidden          []verb // abilities that it does not have
	ignoresContexts bool   // Capabilities.HeedsContext is false
}

// without hides abilities of a faultyProvider.
func without(v ...verb) func(*faultyProvider) { return func(l *faultyProvider) { l.hidden = v } }

func ignoringContexts(l *faultyProvider) { l.ignoresContexts = true }

func (l *faultyProvider) Capabilities() abstractions.Capabilities {
	caps := l.Intercepted.Capabilities()
	caps.HeedsContext = caps.HeedsContext && !l.ignoresContexts
	return caps
}

func (l *faultyProvider) As(target any) bool {
	_, batcher := target.(*abstractions.BatchRenewer)
	_, waiter := target.(*abstractions.Waiter)
	_, pinger := target.(*abstractions.Pinger)
	hidden := pinger || batcher && slices.Contains(l.hidden, batches) || waiter && slices.Contains(l.hidden, waits)
	return !hidden && l.Intercepted.As(target)
}

// testManager is a manager with the traffic between it and the provider, and with the events
// of its observer.
type testManager struct {
	*leasing.Manager
	*traffic
	e *suite.Env
	eventLog
}

// eventLog collects the events of an observer.
type eventLog struct {
	mu   sync.Mutex
	seen []leasing.Event
}

func (l *eventLog) observe(event leasing.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, event)
}

// events returns the events of the given kinds, in order, or all events if no kind is given.
func (l *eventLog) events(kinds ...leasing.EventKind) (events []leasing.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range l.seen {
		if len(kinds) == 0 || slices.Contains(kinds, event.Kind) {
			events = append(events, event)
		}
	}
	return events
}

// manage makes a manager over a client of the backend. Without Tuning.Random there is no
// jitter.
func manage(e *suite.Env, p abstractions.Provider, o leasing.Options, with ...func(*faultyProvider)) *testManager {
	m := &testManager{e: e, traffic: &traffic{recordStep: e.RecordStep, faults: map[verb]fault{}, sent: map[verb][]sentRequest{}}}
	l := &faultyProvider{Intercepted: providerkit.Intercept(p, m.handle)}
	for _, change := range with {
		change(l)
	}
	o.TTL = cmp.Or(o.TTL, e.Short)
	if o.Tuning.Random == nil {
		o.Tuning.Random = func() float64 { return 0 }
	}
	var err error
	m.Manager, err = leasing.NewManager(l, o)
	e.NoError(err, "a manager over this provider")
	m.Subscribe(m.observe)
	e.T.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.Close(ended)
	})
	return m
}

// events waits until all immediate work is done, and returns the events so far.
func (m *testManager) events(kinds ...leasing.EventKind) []leasing.Event {
	m.e.WaitIdle()
	return m.eventLog.events(kinds...)
}

// with returns the manager with the options o of an acquire; o may be nil.
func (m *testManager) with(o *leasing.AcquireOptions) *leasing.Manager {
	if o == nil {
		return m.Manager
	}
	return m.With(*o)
}

// get acquires a free name.
func (m *testManager) get(name string, o *leasing.AcquireOptions) *leasing.Lease {
	lease, err := m.with(o).TryAcquire(m.e.T.Context(), name)
	m.e.NoError(err, "TryAcquire of %q", name)
	return lease
}

// try calls TryAcquire, and returns only the error.
func (m *testManager) try(ctx context.Context, name string) error {
	_, err := m.TryAcquire(ctx, name)
	return err
}

// goroutines returns the number of goroutines in this check's bubble, by their traces.
func goroutines(e *suite.Env) int {
	traces := make([]byte, 16<<20)
	all := string(traces[:runtime.Stack(traces, true)]) // begins with the trace of the calling goroutine
	first, _, _ := strings.Cut(all, "]:")
	_, bubble, found := strings.Cut(first, "synctest bubble")
	e.True(found, first)
	return strings.Count(all, "synctest bubble"+bubble+"]:")
}

// window bounds how long a lease with the given TTL may be trusted: the default margin is
// a hundredth of the TTL, and a little more.
func window(ttl time.Duration) time.Duration { return ttl - ttl/100 }

// isLostBy waits for the loss of a lease. The loss must come before the end of the trust that
// began at the argument from, but not much earlier.
func (m *testManager) isLostBy(lease *leasing.Lease, from time.Time, ttl time.Duration, reasons ...abstractions.LostReason) {
	<-lease.Done()
	trusted := time.Since(from)
	m.e.LessOrEqual(trusted, window(ttl), "trust in a lease of %v, since its request was sent", ttl)
	m.e.Greater(trusted, ttl*97/100, "trust in a lease of %v, since its request was sent", ttl)
	m.isLost(lease, reasons...)
}

// isLost requires that Err, the context's cause, Renew and Release of a lost lease report the loss.
func (m *testManager) isLost(lease *leasing.Lease, reasons ...abstractions.LostReason) {
	ctx := m.e.T.Context()
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

// isAlive requires that both the manager and the backend show the lease as held.
func (m *testManager) isAlive(lease *leasing.Lease) {
	m.e.NoError(lease.Err(), lease.Name())
	m.e.Positive(lease.Remaining(), lease.Name())
	record := m.e.Inspect(lease.Name())
	m.e.True(record.Held, "%q is held", lease.Name())
	m.e.Equal(lease.Token(), record.Token, lease.Name())
}

// isTaken requires that no other claim gets the name.
func isTaken(e *suite.Env, name, why string) {
	_, err := e.Try(e.Peer, e.Request(name))
	e.Held(err, why)
}

// begin runs f concurrently with the check and returns a channel with f's result.
func begin[T any](e *suite.Env, f func() T) <-chan T {
	done := make(chan T, 1)
	e.T.Go(func() { done <- f() })
	return done
}

// within waits for a value that should come within d.
func within[T any](e *suite.Env, d time.Duration, from <-chan T, what string) (value T) {
	select {
	case value = <-from:
	case <-time.After(d):
		e.Fail(what + ": not within " + d.String())
	}
	return value
}
