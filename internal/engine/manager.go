package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/notify"
	"github.com/distributedleasing/leasing/internal/timetable"
	"github.com/distributedleasing/leasing/internal/trust"
)

// Manager is the library's implementation of abstractions.Manager.
type Manager struct {
	provider  abstractions.Provider
	batch     abstractions.BatchRenewer // nil if the provider is not a BatchRenewer
	waiter    abstractions.Waiter       // nil if the provider is not a Waiter
	caps      abstractions.Capabilities
	config    Config
	rules     lifecycle.Rules
	clock     *trust.Clock
	timetable *timetable.Timetable
	requests  *dispatch.Requests
	renewals  *dispatch.Batches[*lease]
	cleaner   *dispatch.Jobs // sends clean-ups
	queues    queues
	observers *notify.Observers
	telemetry *instrument.Telemetry

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
	byName   map[string]*lease // the latest lease of each name, which links to the earlier leases
	adopting []string          // IDs of claims whose Adopt is under way
	idle     chan struct{}     // closed when there are no calls, cleanups and leases; nil before Close

	giveUpAt trust.Instant // when Close stops waiting for unanswered clean-ups; set before closing

	overdueCalls   dispatch.Overdue // of requests that belong to no claim
	overdueBatches dispatch.Overdue // of batches; each lease counts its own renewals
	outage         outage
	wakeupsFailed  atomic.Bool // the failure of wake-ups was logged
	failing        atomic.Int64
}

// maxOverdue is the limit for overdue requests that belong to no claim and, separately, for overdue batches.
const maxOverdue = 256

// New returns a manager for the leases of a provider with the capabilities caps. It starts the loop of the timetable. The caller
// must close the manager.
func New(provider abstractions.Provider, caps abstractions.Capabilities, config Config) *Manager {
	clock := trust.New()
	m := &Manager{
		provider:       provider,
		caps:           caps,
		config:         config,
		clock:          clock,
		timetable:      timetable.New(clock),
		byName:         map[string]*lease{},
		done:           make(chan struct{}),
		overdueCalls:   dispatch.Overdue{Limit: maxOverdue},
		overdueBatches: dispatch.Overdue{Limit: maxOverdue},
	}
	m.batch, _ = abstractions.As[abstractions.BatchRenewer](provider)
	m.waiter, _ = abstractions.As[abstractions.Waiter](provider)
	m.rules = lifecycle.Rules{
		DriftFactor: config.DriftFactor, DriftFloor: config.DriftFloor, RequestTimeout: config.RequestTimeout,
		MinTTL: caps.MinTTL, Granularity: caps.Granularity, Batches: m.batch != nil,
	}
	m.running, m.stop = context.WithCancel(context.Background())
	m.accepting, m.refuse = context.WithCancel(context.Background())
	m.queues.init(m)
	m.telemetry = instrument.New(instrument.Config{
		Provider: caps.Provider, MeterProvider: config.MeterProvider, TracerProvider: config.TracerProvider, Scope: config.Scope,
		OldestWaiter: func() time.Duration { _, age := m.queues.waiters(); return age }, BackendUp: m.outage.up,
	})
	m.observers = notify.New(config.Logger, caps.Provider, m.telemetry.ObserverPanicked, m.log)
	m.requests = dispatch.NewRequests(caps.HeedsContext, m.log, m.goTracked, m.running.Done())
	jobs := func(limit int) *dispatch.Jobs {
		return dispatch.NewJobs(limit, m.spawn, func() bool { return m.running.Err() != nil })
	}
	m.cleaner = jobs(max(1, config.RenewConcurrency/4))
	size := 1
	if m.batch != nil {
		size = config.RenewBatch
	}
	m.renewals = dispatch.NewBatches(jobs(config.RenewConcurrency), jobs(config.RenewConcurrency), size, m.renew)
	m.goroutines.Go(func() { m.timetable.Run(m.running.Done(), m.renewals.Dispatch) })
	return m
}

func (m *Manager) Capabilities() abstractions.Capabilities { return m.caps }

func (m *Manager) Inspect(ctx context.Context, name string) (abstractions.Record, error) {
	req := abstractions.InspectRequest{Name: name}
	record, err := call(ctx, m, "inspect", name, req.Validate(m.caps), m.provider, abstractions.Provider.Inspect, req)
	if err == nil {
		m.noteRecord(name, &record)
	}
	return record, err
}

func (m *Manager) Waiters(ctx context.Context, name string) ([]abstractions.Waiting, error) {
	req := abstractions.WaitersRequest{Name: name}
	lister, ok := abstractions.As[abstractions.WaiterLister](m.provider)
	if !ok {
		return nil, m.wrap("waiters", name, "", abstractions.ErrUnsupported)
	}
	return call(ctx, m, "waiters", name, req.Validate(m.caps), lister, abstractions.WaiterLister.Waiters, req)
}

func (m *Manager) Break(ctx context.Context, name string, options abstractions.BreakOptions) (abstractions.BreakResult, error) {
	req := abstractions.BreakRequest{
		Name: name, IfToken: options.IfToken, Immediate: options.Immediate, Grace: options.Grace,
		Actor: cmp.Or(options.Actor, m.config.Owner), Reason: options.Reason,
	}
	invalid := req.Validate(m.caps)
	switch {
	case req.Immediate && req.Grace != 0:
		invalid = &abstractions.InvalidError{Field: "BreakOptions.Grace", Value: req.Grace, Want: "0 with Immediate, which leaves no grace"}
	case req.Grace == 0 && !req.Immediate:
		req.Grace = m.config.BreakGrace
		if maxTTL := m.caps.MaxTTL; maxTTL > 0 { // holders renew more often than that
			req.Grace = min(req.Grace, maxTTL)
		}
	}
	ctx, span := m.telemetry.Start(orBackground(ctx), "leasing.break")
	defer span.End()
	result, err := call(ctx, m, "break", name, invalid, m.provider, abstractions.Provider.Break, req)
	m.telemetry.Describe(span, instrument.Subject{Name: name, Token: result.Token}, err)
	m.telemetry.Broken(span, req, err == nil && result.WasHeld)
	if err == nil && result.WasHeld {
		m.endBroken(req, result.Token)
		m.observers.Publish(nil, "", &abstractions.Event{
			Kind: abstractions.EventBroken, Time: time.Now(), Coalesced: 1, Name: name, Token: result.Token, BrokenBy: req.Actor, BreakReason: req.Reason,
		})
	}
	return result, err
}

// endBroken ends the manager's own lease with the broken token or, after a break with grace, renews it at once, so that the
// answer reports the break.
func (m *Manager) endBroken(req abstractions.BreakRequest, token int64) {
	m.endLeases(req.Name, func(l *lease) *abstractions.LostError {
		switch {
		case l.token != token:
			return nil
		case req.Immediate:
			return &abstractions.LostError{Reason: abstractions.LostBroken, BrokenBy: req.Actor, BreakReason: req.Reason}
		}
		l.renewNow()
		return nil
	})
}

func (m *Manager) List(ctx context.Context, options abstractions.ListOptions) iter.Seq2[abstractions.Record, error] {
	return func(yield func(abstractions.Record, error) bool) {
		lister, ok := abstractions.As[abstractions.Lister](m.provider)
		if !ok {
			yield(abstractions.Record{}, m.wrap("list", "", "", abstractions.ErrUnsupported))
			return
		}
		req := abstractions.ListRequest{Prefix: options.Prefix, HeldOnly: options.HeldOnly}
		for {
			page, err := call(ctx, m, "list", "", nil, lister, abstractions.Lister.List, req)
			if err != nil {
				yield(abstractions.Record{}, err)
				return
			}
			for _, record := range page.Records {
				m.noteRecord(record.Name, &record)
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

func (m *Manager) History(ctx context.Context, name string, options abstractions.HistoryOptions) iter.Seq2[abstractions.HistoryEntry, error] {
	return func(yield func(abstractions.HistoryEntry, error) bool) {
		reader, ok := abstractions.As[abstractions.HistoryReader](m.provider)
		if !ok {
			yield(abstractions.HistoryEntry{}, m.wrap("history", name, "", abstractions.ErrUnsupported))
			return
		}
		req := abstractions.HistoryRequest{Name: name, NewestFirst: options.NewestFirst}
		for {
			page, err := call(ctx, m, "history", name, m.caps.ValidateName(name), reader, abstractions.HistoryReader.History, req)
			if err != nil {
				yield(abstractions.HistoryEntry{}, err)
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

func (m *Manager) Subscribe(observer abstractions.Observer) (unsubscribe func()) {
	return m.observers.Subscribe(observer)
}

// call makes one bounded request for an application and wraps the error. It refuses
// the request if the manager is closed or the request invalid.
func call[P, Req, Reply any](ctx context.Context, m *Manager, op, name string, invalid error, p P, send func(P, context.Context, Req) (Reply, error), req Req) (Reply, error) {
	var none Reply
	if m.isClosing() {
		return none, m.wrap(op, name, "", abstractions.ErrClosed)
	}
	if invalid != nil {
		return none, m.wrap(op, name, "", invalid)
	}
	b := dispatch.WithBound(orBackground(ctx), m.config.RequestTimeout)
	defer b.Cancel()
	reply, err := dispatch.Send(b, m.requests, &m.overdueCalls, p, send, req, nil)
	return reply, m.wrap(op, name, "", err)
}

// wrap adds the operation, the provider, the name and the claim's fingerprint to an error, once. id is "" for no claim.
func (m *Manager) wrap(op, name, id string, err error) error {
	if err == nil {
		return nil
	}
	var wrapped *abstractions.Error
	if !errors.As(err, &wrapped) {
		return &abstractions.Error{Op: op, Provider: m.caps.Provider, Name: name, Err: err, Fingerprint: abstractions.FingerprintOf(id)}
	}
	if id != "" && wrapped.Fingerprint.IsZero() && error(wrapped) == err { //nolint:errorlint // only the outermost error, which is the provider's own
		named := *wrapped
		named.Fingerprint = abstractions.FingerprintOf(id)
		return &named
	}
	return err
}

// log writes to the application's logger, which may panic.
func (m *Manager) log(level slog.Level, text string, args ...any) {
	defer func() { _ = recover() }() // a panic in the logger can't be reported anywhere else
	m.config.Logger.With("provider", m.caps.Provider).Log(context.Background(), level, text, args...)
}

// random returns a number of at least 0 and under 1. It calls the application's code, so
// the caller must not hold a lock.
func (m *Manager) random() (number float64) {
	defer func() {
		if p := recover(); p != nil {
			number = 0.5
			m.log(slog.LevelError, "leasing: Tuning.Random panicked", "panic", p)
		}
	}()
	return m.config.Random()
}

// orBackground replaces a nil context with one that never ends.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
