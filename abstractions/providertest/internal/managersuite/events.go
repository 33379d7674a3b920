package managersuite

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var eventChecks = []managerCheck{
	{"Manager_EventsReportALeasesLife", func(ctx context.Context, e *suite.Env, m *testManager) {
		var own eventLog
		lease := m.get(e.Name(), &leasing.AcquireOptions{Observer: own.observe})
		m.setFault(renews, onFirst(1, lostRequest))
		e.Pause(e.Short)
		e.NoError(lease.Release(ctx))
		want := []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewalFailed, leasing.EventRenewed, leasing.EventReleased}
		every := m.events(want...)
		e.Equal(want, kindsOf(every))
		e.Equal(want, kindsOf(own.events()), "AcquireOptions.Observer")
		for _, event := range every {
			e.Equal(abstractions.FingerprintOf(lease.ID()), event.Fingerprint)
			e.Equal(lease.Token(), event.Token)
		}

		lost := m.get(e.Name(), nil)
		e.Break(abstractions.BreakRequest{Name: lost.Name(), Actor: "operator", Reason: "it hangs"})
		e.Pause(e.Short)
		m.isLost(lost, abstractions.LostBroken)
		losses := m.events(leasing.EventLost)
		e.Len(losses, 1)
		e.Equal(abstractions.FingerprintOf(lost.ID()), losses[0].Fingerprint)
		e.Equal(abstractions.LostBroken, losses[0].Reason)
		e.Equal([]string{"operator", "it hangs"}, []string{losses[0].BrokenBy, losses[0].BreakReason}, "who broke it, and why")
		var broken *abstractions.LostError
		e.ErrorAs(lost.Err(), &broken)
		e.Equal([]string{"operator", "it hangs"}, []string{broken.BrokenBy, broken.BreakReason}, "who broke it, and why")
		e.Len(m.events(leasing.EventReleased), 1, "a lost lease is not released")
	}},
	// The check has observers that are slow, that panic, and that have unsubscribed.
	{"Manager_Trap_T38_ObserversHarmNobody", func(ctx context.Context, e *suite.Env, m *testManager) {
		var slow, left eventLog
		m.Subscribe(func(event leasing.Event) {
			e.Pause(e.Short / 20)
			slow.observe(event)
		})
		m.Subscribe(func(leasing.Event) { panic("an observer") })
		m.Subscribe(left.observe)()
		begun := time.Now()
		lease := m.get(e.Name(), nil)
		other := m.get(e.Name(), nil)
		e.NoError(other.Release(ctx))
		e.Less(time.Since(begun), 100*time.Millisecond, "a slow observer delays no lease")
		e.Pause(3 * e.Short)
		m.isAlive(lease)
		e.NoError(lease.Release(ctx))
		e.NoError(m.Close(ctx))
		for id, want := range map[string][]leasing.EventKind{
			lease.ID(): {leasing.EventAcquired, leasing.EventRenewed, leasing.EventReleased}, other.ID(): {leasing.EventAcquired, leasing.EventReleased},
		} {
			var kinds []leasing.EventKind
			for _, event := range slow.events() {
				if event.Fingerprint == abstractions.FingerprintOf(id) {
					kinds = append(kinds, event.Kind)
				}
			}
			e.Equal(want, slices.Compact(kinds), "Close waits until a slow observer has all events, in order")
		}
		e.Empty(left.events(), "events after the end of a subscription")
	}},
	{"Manager_Trap_T37_CountsReturnToZero", func(ctx context.Context, e *suite.Env, _ *testManager) {
		counts := &countingProvider{}
		m := manage(e, e.P, leasing.Options{MeterProvider: counts})
		counts.expect(e, 0, 0, 0)
		released, lost, broken := m.get(e.Name(), nil), m.get(e.Name(), nil), m.get(e.Name(), nil)
		waits, cancel := context.WithCancel(ctx)
		gaveUp := m.acquire(waits, e.Take(e.Name()).Req.Name, nil)
		e.WaitIdle()
		counts.expect(e, 3, 1, 0)
		cancel()
		<-gaveUp
		e.NoError(released.Release(ctx))
		counts.expect(e, 2, 0, 0)
		e.Break(abstractions.BreakRequest{Name: broken.Name(), Immediate: true})
		e.Pause(e.Short)
		m.isLost(broken)
		counts.expect(e, 1, 0, 0)
		m.setFault(renews, lostReply)
		m.setFault(releases, lostRequest)
		<-lost.Done()
		e.Pause(e.Short / 50) // until the backend would have freed the name
		counts.expect(e, 0, 0, 1)
		m.setFault(releases, nil)
		e.Pause(2 * e.Short)
		counts.expect(e, 0, 0, 0)
		e.NoError(m.Close(ctx))
		counts.expect(e, 0, 0, 0)
	}},
	{"Manager_Trap_T86_MetadataAreCopies", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long})
		given := map[string]string{"k": "v"}
		want := map[string]string{"k": "v"}
		lease := m.get(e.Name(), &leasing.AcquireOptions{Metadata: given, NoAutoRenew: true})
		given["k"] = "changed"
		handed := lease.Metadata()
		e.Equal(want, handed)
		handed["k"] = "changed"
		e.Equal(want, lease.Metadata())
		record, err := m.Inspect(ctx, lease.Name())
		e.NoError(err)
		e.Equal(want, record.Metadata)
		e.NoError(lease.Release(ctx))
	}},
	{"Manager_MetadataChange", func(ctx context.Context, e *suite.Env, m *testManager) {
		one, two := map[string]string{"n": "1"}, map[string]string{"n": "2"}
		lease := m.get(e.Name(), &leasing.AcquireOptions{Metadata: one})
		shows := func(want map[string]string) {
			e.Equal(want, lease.Metadata())
			e.Equal(want, e.Inspect(lease.Name()).Metadata)
		}
		shows(one)
		e.NoError(lease.SetMetadata(ctx, two))
		shows(two)

		// A request that the backend refuses does not end the lease.
		m.setFault(renews, func(x *exchange) error {
			if x.req.(abstractions.RenewRequest).Metadata["n"] == "too much" {
				return abstractions.ErrInvalid
			}
			return x.pass()
		})
		e.ErrorIs(lease.SetMetadata(ctx, map[string]string{"n": "too much"}), abstractions.ErrInvalid)
		e.Pause(2 * e.Short)
		m.isAlive(lease)
		shows(two)

		// Later renewals repeat a change whose reply was lost. If a copy of the change arrives
		// after the next change, a renewal undoes the copy.
		var late func()
		m.setFault(renews, func(x *exchange) error {
			if x.n == 1 {
				req := x.req.(abstractions.RenewRequest)
				late = func() { _, _ = e.P.Renew(e.T.Context(), req) }
				return errNoReply
			}
			return x.pass()
		})
		e.Error(lease.SetMetadata(ctx, map[string]string{"n": "3"}))
		e.NoError(lease.SetMetadata(ctx, two))
		shows(two)
		late()
		e.Pause(e.Short)
		m.isAlive(lease)
		shows(two)
	}},
}

func kindsOf(events []leasing.Event) (kinds []leasing.EventKind) {
	for _, event := range events {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

// countingProvider is a meter provider that keeps the sums of the manager's counters.
type countingProvider struct {
	noop.MeterProvider
	counts sync.Map // from the instrument's name to *count
}

type countingMeter struct {
	noop.Meter
	*countingProvider
}

type counter struct {
	noop.Int64UpDownCounter
	sum atomic.Int64
}

func (c *countingProvider) Meter(string, ...metric.MeterOption) metric.Meter {
	return countingMeter{noop.Meter{}, c}
}

func (c countingMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	n, _ := c.counts.LoadOrStore(name, new(counter))
	return n.(*counter), nil
}

func (*counter) Enabled(context.Context) bool { return true }

func (n *counter) Add(_ context.Context, by int64, _ ...metric.AddOption) { n.sum.Add(by) }

// sum returns the sum of the named instrument.
func (c *countingProvider) sum(name string) int64 {
	n, ok := c.counts.Load(name)
	if !ok {
		return -1
	}
	return n.(*counter).sum.Load()
}

// expect requires that the counters have these sums after all immediate work is done.
func (c *countingProvider) expect(e *suite.Env, active, waiters, cleanups int64) {
	e.WaitIdle()
	for name, want := range map[string]int64{"leasing.active.count": active, "leasing.waiters": waiters, "leasing.cleanups": cleanups} {
		e.Equal(want, c.sum(name), name)
	}
}
