package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// manager is the library's implementation of abstractions.Manager. Each of its parts has a file:
// schedule (what is due), engine (renewal requests), queues (waiters),
// observers, telemetry.
type manager struct {
	provider  Provider
	batch     abstractions.BatchRenewer // nil without
	waiter    abstractions.Waiter       // nil without
	queued    bool                      // the backend keeps a queue of waiters
	caps      Capabilities
	options   Options
	settings  *settings // of an acquire without options
	rules     lifecycle.Rules
	clock     *trust.Clock
	schedule  *schedule
	engine    *engine
	queues    queues
	observers observers
	telemetry *telemetry

	// running is the context of the manager's own work. Close ends the context
	// when it stops waiting, and the goroutines end with the context.
	running    context.Context
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	// accepting ends as soon as Close begins.
	accepting context.Context
	refuse    context.CancelFunc
	done      chan struct{} // closed when Close has finished
	result    error         // of Close, once done

	calls      atomic.Int64 // Acquires under way
	unanswered atomic.Int64 // clean-ups whose release has not been answered yet

	mu       sync.Mutex
	cleanups int
	denied   error // of the latest clean-up that the backend refused while Close waited
	leases   []*lease
	byName   map[string]*lease // the latest of each name, which links to the earlier ones
	adopting []string          // IDs of claims whose Adopt is under way
	idle     chan struct{}     // closed when there are no calls, cleanups and leases; nil before Close

	giveUpAt trust.Instant // when Close stops waiting for unanswered clean-ups; set before closing

	suspended atomic.Int64 // boot less mono at the loop's last look
	overdue   overdue      // of requests that belong to no claim
	helpers   helpers
	outage    outage
	unhinted  atomic.Bool // the failure of wake-ups was logged
	failing   atomic.Int64
}

func newManager(provider Provider, options Options, newClock func() *trust.Clock) (*manager, error) {
	if provider == nil {
		return nil, &Error{Op: "new manager", Err: &InvalidError{Field: "provider", Value: nil, Want: "a provider; nil can't hold leases"}}
	}
	caps := provider.Capabilities()
	options, settings, err := options.withDefaults(caps)
	if err != nil {
		return nil, &Error{Op: "new manager", Provider: caps.Provider, Err: err}
	}
	m := &manager{
		provider: provider,
		caps:     caps,
		options:  options,
		settings: settings,
		clock:    newClock(),
		schedule: newSchedule(),
		byName:   map[string]*lease{},
		done:     make(chan struct{}),
		overdue:  overdue{limit: 256},
		helpers:  helpers{work: make(chan func())},
	}
	m.batch, _ = abstractions.As[abstractions.BatchRenewer](provider)
	m.waiter, _ = abstractions.As[abstractions.Waiter](provider)
	m.queued = m.waiter != nil && m.caps.Queues
	m.rules = lifecycle.Rules{
		DriftFactor: options.Tuning.DriftFactor, DriftFloor: options.Tuning.DriftFloor, RequestTimeout: options.Tuning.RequestTimeout,
		MinTTL: caps.MinTTL, Granularity: caps.Granularity, Batches: m.batch != nil,
	}
	m.running, m.stop = context.WithCancel(context.Background())
	m.accepting, m.refuse = context.WithCancel(context.Background())
	m.telemetry = newTelemetry(m)
	m.engine = newEngine(m)
	m.queues.init(m)
	m.observers.init(m)
	m.goroutines.Go(m.run)
	return m, nil
}

func (m *manager) Capabilities() Capabilities { return m.caps }

func (m *manager) Inspect(ctx context.Context, name string) (Record, error) {
	req := abstractions.InspectRequest{Name: name}
	record, err := call(ctx, m, "inspect", name, req.Validate(m.caps), m.provider, Provider.Inspect, req)
	if err == nil {
		m.shown(name, &record)
	}
	return record, err
}

func (m *manager) Waiters(ctx context.Context, name string) ([]Waiting, error) {
	req := abstractions.WaitersRequest{Name: name}
	lister, ok := abstractions.As[abstractions.WaiterLister](m.provider)
	if !ok {
		return nil, m.wrap("waiters", name, "", ErrUnsupported)
	}
	return call(ctx, m, "waiters", name, req.Validate(m.caps), lister, abstractions.WaiterLister.Waiters, req)
}

func (m *manager) Break(ctx context.Context, name string, options BreakOptions) (BreakResult, error) {
	req := abstractions.BreakRequest{
		Name: name, IfToken: options.IfToken, Immediate: options.Immediate, Grace: options.Grace,
		Actor: cmp.Or(options.Actor, m.options.Owner), Reason: options.Reason,
	}
	invalid := req.Validate(m.caps)
	switch {
	case req.Immediate && req.Grace != 0:
		invalid = &InvalidError{Field: "BreakOptions.Grace", Value: req.Grace, Want: "0 with Immediate, which leaves no grace"}
	case req.Grace == 0 && !req.Immediate:
		req.Grace = 2 * max(defaultTTL, min(m.options.TTL, trust.Forever/2))
		if most := m.caps.MaxTTL; most > 0 { // a holder's cadence is shorter
			req.Grace = min(req.Grace, most)
		}
	}
	ctx, span := m.telemetry.tracer.Start(orBackground(ctx), "leasing.break")
	defer span.End()
	result, err := call(ctx, m, "break", name, invalid, m.provider, Provider.Break, req)
	m.telemetry.describe(span, name, "", result.Token, 0, 0, err)
	m.telemetry.broke(span, req, err == nil && result.WasHeld)
	if err == nil && result.WasHeld {
		m.broke(req, result.Token)
		m.observers.publish(nil, "", &Event{
			Kind: EventBroken, Time: time.Now(), Coalesced: 1, Name: name, Token: result.Token, BrokenBy: req.Actor, BreakReason: req.Reason,
		})
	}
	return result, err
}

// broke ends the manager's own lease of the broken token, or renews it at once, so that the lease learns of the break.
func (m *manager) broke(req abstractions.BreakRequest, token int64) {
	m.end(req.Name, func(l *lease) *LostError {
		switch {
		case l.token != token:
			return nil
		case req.Immediate:
			return &LostError{Reason: LostBroken, BrokenBy: req.Actor, BreakReason: req.Reason}
		}
		l.renewNow()
		return nil
	})
}

func (m *manager) List(ctx context.Context, options ListOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		lister, ok := abstractions.As[abstractions.Lister](m.provider)
		if !ok {
			yield(Record{}, m.wrap("list", "", "", ErrUnsupported))
			return
		}
		req := abstractions.ListRequest{Prefix: options.Prefix, HeldOnly: options.HeldOnly}
		for {
			page, err := call(ctx, m, "list", "", nil, lister, abstractions.Lister.List, req)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, record := range page.Records {
				m.shown(record.Name, &record)
				if !yield(record, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			req.After = page.Next
		}
	}
}

func (m *manager) History(ctx context.Context, name string, options HistoryOptions) iter.Seq2[HistoryEntry, error] {
	return func(yield func(HistoryEntry, error) bool) {
		reader, ok := abstractions.As[abstractions.HistoryReader](m.provider)
		if !ok {
			yield(HistoryEntry{}, m.wrap("history", name, "", ErrUnsupported))
			return
		}
		req := abstractions.HistoryRequest{Name: name, NewestFirst: options.NewestFirst}
		for {
			page, err := call(ctx, m, "history", name, m.caps.ValidateName(name), reader, abstractions.HistoryReader.History, req)
			if err != nil {
				yield(HistoryEntry{}, err)
				return
			}
			for _, entry := range page.Entries {
				if !yield(entry, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			req.After = page.Next
		}
	}
}

func (m *manager) Subscribe(observer Observer) (unsubscribe func()) {
	return m.observers.subscribe(observer)
}

// call makes one bounded request for an application and wraps the error. It refuses
// the request if the manager is closed or the request invalid.
func call[P, Req, Reply any](ctx context.Context, m *manager, op, name string, invalid error, p P, send func(P, context.Context, Req) (Reply, error), req Req) (Reply, error) {
	var none Reply
	if m.isClosing() {
		return none, m.wrap(op, name, "", ErrClosed)
	}
	if invalid != nil {
		return none, m.wrap(op, name, "", invalid)
	}
	b := bounded(orBackground(ctx), m.options.Tuning.RequestTimeout)
	defer b.cancel()
	reply, err := request(b, m, &m.overdue, p, send, req, nil)
	return reply, m.wrap(op, name, "", err)
}

// wrap adds the operation, the provider, the name and the claim's fingerprint to an error, once. id is "" for no claim.
func (m *manager) wrap(op, name, id string, err error) error {
	if err == nil {
		return nil
	}
	var wrapped *Error
	if !errors.As(err, &wrapped) {
		return &Error{Op: op, Provider: m.caps.Provider, Name: name, Err: err, Fingerprint: FingerprintOf(id)}
	}
	if id != "" && wrapped.Fingerprint.IsZero() && error(wrapped) == err { //nolint:errorlint // the outermost only: a provider's own
		named := *wrapped
		named.Fingerprint = FingerprintOf(id)
		return &named
	}
	return err
}

func (m *manager) isClosing() bool { return m.accepting.Err() != nil }

// track counts work that Close waits for, until goroutines.Done, unless the manager
// has ended.
func (m *manager) track() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running.Err() != nil {
		return false
	}
	m.goroutines.Add(1)
	return true
}

// spawn runs f in a goroutine that Close waits for, unless the manager has ended.
func (m *manager) spawn(f func()) bool {
	if !m.track() {
		return false
	}
	go func() {
		defer m.goroutines.Done()
		f()
	}()
	return true
}

// goTracked runs f in a goroutine. Close waits for the goroutine unless the manager has ended.
func (m *manager) goTracked(f func()) {
	if !m.spawn(f) {
		go f()
	}
}

// leave ends a call that m.calls counts.
func (m *manager) leave() {
	m.calls.Add(-1)
	if m.isClosing() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checkIdle()
	}
}

// register adds a new lease to the manager, unless Close has begun. It reports whether the manager has an
// older lease of the name.
func (m *manager) register(l *lease) (older bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosing() {
		return false, ErrClosed
	}
	m.leases = append(m.leases, l)
	l.slot = int32(len(m.leases) - 1)
	l.before = m.byName[l.name]
	m.byName[l.name] = l
	return l.before != nil, nil
}

// has reports whether the manager has a lease of the name for which is is true. Caller holds mu.
func (m *manager) has(name string, is func(*lease) bool) bool {
	for l := m.byName[name]; l != nil; l = l.before {
		if is(l) {
			return true
		}
	}
	return false
}

// holds reports whether the claim in a record belongs to a lease or a clean-up of the manager. Caller holds mu.
func (m *manager) holds(r *Record) bool {
	return m.has(r.Name, func(l *lease) bool { return FingerprintOf(l.id) == r.Fingerprint }) ||
		slices.ContainsFunc(m.cleanUpsOf(r.Name), func(c *cleanup) bool { return FingerprintOf(c.req.ID) == r.Fingerprint })
}

// granted ends each lease of the name whose token is lower than the token of another claim. The claim of the lease
// itself proves no loss: a server of Redlock may show the claim with a higher token than the majority has granted.
func (m *manager) granted(name string, token int64, claim Fingerprint) {
	m.end(name, func(l *lease) *LostError {
		if l.token >= token || FingerprintOf(l.id) == claim {
			return nil
		}
		return &LostError{Reason: LostTaken, Err: fmt.Errorf("the backend has shown token %d of the name, after %d of this lease", token, l.token)}
	})
}

// shown takes the record of a name that an answer carries.
func (m *manager) shown(name string, r *Record) {
	if !r.Unconfirmed {
		m.granted(name, r.Token, r.Fingerprint)
	}
}

// end ends the leases of a name for which why returns a loss.
func (m *manager) end(name string, why func(*lease) *LostError) {
	var leases []*lease
	m.mu.Lock()
	for l := m.byName[name]; l != nil; l = l.before {
		leases = append(leases, l)
	}
	m.mu.Unlock()
	for _, l := range leases {
		lost := why(l)
		if lost == nil {
			continue
		}
		now := m.clock.Now()
		l.mu.Lock()
		ended := l.apply(now, l.life.Lose(lost))
		l.mu.Unlock()
		ended.report()
	}
}

func (m *manager) unregister(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if latest := m.byName[l.name]; latest != l {
		for latest.before != l {
			latest = latest.before
		}
		latest.before = l.before
	} else if l.before != nil {
		m.byName[l.name] = l.before
	} else {
		delete(m.byName, l.name)
	}
	l.before = nil
	last := m.leases[len(m.leases)-1]
	m.leases[l.slot], last.slot = last, l.slot
	m.leases[len(m.leases)-1] = nil
	m.leases = m.leases[:len(m.leases)-1]
	m.checkIdle()
}

// checkIdle wakes Close when no call, clean-up or lease is left. Caller holds mu.
func (m *manager) checkIdle() {
	if m.idle != nil && m.calls.Load() == 0 && m.cleanups == 0 && len(m.leases) == 0 {
		close(m.idle)
		m.idle = nil
	}
}
