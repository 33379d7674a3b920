package managersuite

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// logHandler keeps the lines that a manager logs.
type logHandler struct {
	slog.Handler
	mu    sync.Mutex
	lines []map[string]string // from an attribute's key to its value, as text
}

func newLogHandler() *logHandler { return &logHandler{Handler: slog.DiscardHandler} }

// Enabled makes the manager log everything.
func (l *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs drops attributes that apply to all lines.
func (l *logHandler) WithAttrs([]slog.Attr) slog.Handler { return l }

// Handle keeps a line.
func (l *logHandler) Handle(_ context.Context, record slog.Record) error {
	line := map[string]string{slog.MessageKey: record.Message, slog.LevelKey: record.Level.String()}
	record.Attrs(func(attr slog.Attr) bool {
		line[attr.Key] = attr.Value.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// warnings returns the warnings in which the attribute key has the value.
func (l *logHandler) warnings(key, value string) (lines []map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line[slog.LevelKey] == slog.LevelWarn.String() && line[key] == value {
			lines = append(lines, line)
		}
	}
	return lines
}

// blockedObserver is an observer that is busy with its first event until resume is closed.
type blockedObserver struct {
	eventLog
	busy, resume chan struct{}
	once         sync.Once
}

func newBlockedObserver() *blockedObserver {
	return &blockedObserver{busy: make(chan struct{}), resume: make(chan struct{})}
}

func (h *blockedObserver) observe(event leasing.Event) {
	h.eventLog.observe(event)
	h.once.Do(func() {
		close(h.busy)
		<-h.resume
	})
}

var realObserverChecks = []managerCheck{
	{"EventsSayWhatTheyPromise", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Owner: "owner"})
		begun := time.Now()
		lease := m.get(e.Name(), nil)
		e.NoError(lease.Renew(ctx))
		m.setFault(renews, onFirst(2, refusal(fmt.Errorf("%w: %w", abstractions.ErrDenied, errMine))))
		e.Error(lease.Renew(ctx))
		e.Error(lease.Renew(ctx))
		e.NoError(lease.Renew(ctx))
		lost, moved := m.get(e.Name(), nil), m.get(e.Name(), nil)
		e.NoError(lease.Release(ctx))
		e.NoError(handOver(ctx, moved))
		e.Break(abstractions.BreakRequest{Name: lost.Name(), Immediate: true, Actor: "operator"})
		m.awaitReportedLoss(lost)
		e.NoError(m.Close(ctx))

		last := begun.Add(-time.Millisecond) // event times may be truncated
		for _, event := range m.eventLog.events() {
			of := map[string]*leasing.Lease{lease.Name(): lease, lost.Name(): lost, moved.Name(): moved}[event.Name]
			e.Equal([]any{abstractions.FingerprintOf(of.ID()), "owner", of.Token(), e.Long}, []any{event.Fingerprint, event.Owner, event.Token, event.TTL}, event.Kind)
			e.False(event.Time.Before(last) || event.Time.After(time.Now().Add(time.Millisecond)), "%s at %v", event.Kind, event.Time)
			e.GreaterOrEqual(event.Coalesced, 1)
			switch last = event.Time; event.Kind {
			case leasing.EventAcquired, leasing.EventRenewed, leasing.EventRenewalFailed:
				e.LessOrEqual(event.Remaining, window(e.Long), event.Kind)
				e.Greater(event.Remaining, e.Long/2, event.Kind)
			default:
				e.Zero(event.Remaining, event.Kind)
			}
		}
		eventsOf := func(kind leasing.EventKind, of *leasing.Lease) (events []leasing.Event) {
			for _, event := range m.eventLog.events(kind) {
				if event.Name == of.Name() {
					events = append(events, event)
				}
			}
			e.NotEmpty(events, kind)
			return events
		}
		renewed, failed := eventsOf(leasing.EventRenewed, lease), eventsOf(leasing.EventRenewalFailed, lease)
		e.Equal(2, renewed[len(renewed)-1].Renewals)
		for _, event := range failed {
			e.ErrorIs(event.Err, errMine)
			e.False(event.WillRetry, "the application renews")
		}
		e.Equal(2, failed[len(failed)-1].Attempt)
		e.NoError(eventsOf(leasing.EventReleased, lease)[0].Err)
		e.Len(eventsOf(leasing.EventHandedOver, moved), 1)
		e.Empty(m.eventLog.events(leasing.EventBroken), "another client has broken it")
		ends := eventsOf(leasing.EventLost, lost)
		e.Len(ends, 1)
		e.ErrorIs(ends[0].Err, abstractions.ErrLost)
		e.WithinDuration(lost.AcquiredAt(), ends[0].LastRenewal, time.Millisecond)
	}},
	// In this check an observer is busy while a lease is renewed.
	{"EventsOfOneKindAreMerged", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true})
		observer := newBlockedObserver()
		m.Subscribe(observer.observe)
		lease, other := m.get(e.Name(), nil), m.get(e.Name(), nil)
		within(e, e.Slack, observer.busy, "the first event")
		for range 3 {
			e.NoError(lease.Renew(ctx))
			e.NoError(other.Renew(ctx))
		}
		m.setFault(renews, refusal(errNoReply))
		for range 4 {
			e.Error(lease.Renew(ctx))
		}
		m.setFault(renews, nil)
		e.NoError(lease.Renew(ctx))
		e.NoError(lease.Release(ctx))
		e.NoError(other.Release(ctx))
		close(observer.resume)
		e.NoError(m.Close(ctx))
		var kinds []leasing.EventKind
		var counts []int
		for _, event := range observer.events() {
			if event.Name == lease.Name() {
				kinds, counts = append(kinds, event.Kind), append(counts, event.Coalesced)
			}
		}
		e.Equal([]leasing.EventKind{leasing.EventAcquired, leasing.EventRenewed, leasing.EventRenewalFailed, leasing.EventRenewed, leasing.EventReleased}, kinds)
		e.Equal([]int{1, 3, 4, 1, 1}, counts)
		e.Equal(4, observer.events(leasing.EventRenewalFailed)[0].Attempt, "the latest of those that were merged")
	}},
	// The check unsubscribes busy observers, unsubscribes inside an observer,
	// and unsubscribes twice.
	{"NoEventFollowsTheEnd", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true})
		busy := newBlockedObserver()
		leave := m.Subscribe(busy.observe)
		var inside eventLog
		var leaveInside func()
		subscribed := make(chan struct{})
		leaveInside = m.Subscribe(func(event leasing.Event) {
			<-subscribed
			inside.observe(event)
			leaveInside()
		})
		close(subscribed)
		lease := m.get(e.Name(), nil)
		within(e, e.Slack, busy.busy, "the first event")
		e.NoError(lease.Renew(ctx))
		left := begin(e, func() (none struct{}) {
			leave()
			leave()
			return none
		})
		within(e, e.Slack, left, "the end of a subscription whose observer is busy")
		e.Await("an observer unsubscribes itself", func() bool { return len(inside.events()) > 0 })
		e.NoError(within(e, e.Slack, begin(e, func() error { return lease.Renew(ctx) }), "a renewal"))
		close(busy.resume)
		e.NoError(within(e, e.Slack, begin(e, func() error { return lease.Release(ctx) }), "a release"))
		e.NoError(within(e, e.Slack, begin(e, func() error { return m.Close(ctx) }), "Close"))
		for _, log := range []*eventLog{&busy.eventLog, &inside} {
			e.Equal([]leasing.EventKind{leasing.EventAcquired}, kindsOf(log.events()))
		}
		e.NotPanics(func() { m.Subscribe(nil)() })
	}},
	// In this check one observer panics, and another never returns.
	{"AnObserverHarmsNobody", func(ctx context.Context, e *suite.Env, _ *testManager) {
		bound := 200 * time.Millisecond
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{ObserverTimeout: bound}})
		observer := newBlockedObserver()
		defer close(observer.resume)
		m.Subscribe(observer.observe)
		m.Subscribe(func(leasing.Event) { panic("an observer") })
		lease := m.get(e.Name(), &leasing.AcquireOptions{Observer: func(leasing.Event) { panic("an observer") }})
		e.NoError(lease.Renew(ctx))
		e.Await("panics are counted", func() bool { return m.Health(ctx).ObserverPanics == 4 })
		e.NoError(lease.Release(ctx))
		begun := time.Now()
		e.NoError(within(e, e.Slack, begin(e, func() error { return m.Close(ctx) }), "Close"))
		e.GreaterOrEqual(time.Since(begun), bound, "Close waits for an observer for Tuning.ObserverTimeout")
		e.Len(observer.events(), 1)
		e.Len(m.eventLog.events(), 3)
	}},
	{"FailuresAreLoggedOnceAndCounted", func(ctx context.Context, e *suite.Env, _ *testManager) {
		log := newLogHandler()
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Logger: slog.New(log)})
		leases := []*leasing.Lease{m.get(e.Name(), nil), m.get(e.Name(), nil)}
		m.setFault(renews, refusal(errNoReply))
		failures := func() (lines []map[string]string) {
			return append(log.warnings("name", leases[0].Name()), log.warnings("name", leases[1].Name())...)
		}
		e.Error(leases[0].Renew(ctx))
		e.Await("the first failure is logged", func() bool { return len(failures()) == 1 })
		e.Equal("1", failures()[0]["attempt"])
		for range 3 {
			for _, lease := range leases {
				e.Error(lease.Renew(ctx))
			}
		}
		m.setFault(renews, nil)
		e.NoError(leases[0].Release(ctx))
		e.Break(abstractions.BreakRequest{Name: leases[1].Name(), Immediate: true})
		m.awaitReportedLoss(leases[1])
		e.NoError(m.Close(ctx))
		var counted, lost []string
		for _, line := range failures() {
			if line["failures"] != "" {
				counted = append(counted, line["failures"]+" of "+line["leases"])
			}
			if line["reason"] != "" {
				lost = append(lost, line["name"])
			}
		}
		e.Equal([]string{"6 of 2"}, counted, "failures that were not logged on their own")
		e.Equal([]string{leases[1].Name()}, lost, "losses")
		e.Zero(m.Health(ctx).ObserverPanics)
	}},
}
