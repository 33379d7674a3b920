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
	{"Manager_EventsTellALeasesLife", func(ctx context.Context, e *suite.Env, m *managed) {
		var own eventLog
		lease := m.get(e.Name(), &leasing.AcquireOptions{Observer: own.observe})
		m.bend(renews, first(1, lostRequest))
		e.Pause(e.Short)
		e.NoError(lease.Release(ctx))
		want := []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewalFailed, leasing.EventRenewed, leasing.EventReleased}
		every := m.told(want...)
		e.Equal(want, kindsOf(every))
		e.Equal(want, kindsOf(own.told()), "AcquireOptions.Observer")
		for _, event := range every {
			e.Equal(abstractions.FingerprintOf(lease.ID()), event.Fingerprint)
			e.Equal(lease.Token(), event.Token)
		}

		lost := m.get(e.Name(), nil)
		e.Breaks(abstractions.BreakRequest{Name: lost.Name(), Actor: "operator", Reason: "it hangs"})
		e.Pause(e.Short)
		m.isLost(lost, abstractions.LostBroken)
		told := m.told(leasing.EventLost)
		e.Len(told, 1)
		e.Equal(abstractions.FingerprintOf(lost.ID()), told[0].Fingerprint)
		e.Equal(abstractions.LostBroken, told[0].Reason)
		e.Equal([]string{"operator", "it hangs"}, []string{told[0].BrokenBy, told[0].BreakReason}, "who broke it, and why")
		var broken *abstractions.LostError
		e.ErrorAs(lost.Err(), &broken)
		e.Equal([]string{"operator", "it hangs"}, []string{broken.BrokenBy, broken.BreakReason}, "who broke it, and why")
		e.Len(m.told(leasing.EventReleased), 1, "a lost lease is not released")
	}},
	// The check has observers that are slow, that panic, and that have unsubscribed.
	{"Manager_Trap_T38_ObserversHarmNobody", func(ctx context.Context, e *suite.Env, m *managed) {
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
			var told []leasing.EventKind
			for _, event := range slow.told() {
				if event.Fingerprint == abstractions.FingerprintOf(id) {
					told = append(told, event.Kind)
				}
			}
			e.Equal(want, slices.Compact(told), "Close waits until a slow observer has been told all, in order")
		}
		e.Empty(left.told(), "events told to one that has unsubscribed")
	}},
	{"Manager_Trap_T37_CountsReturnToZero", func(ctx context.Context, e *suite.Env, _ *managed) {
		counts := &counted{}
		m := manage(e, e.P, leasing.Options{MeterProvider: counts})
		counts.are(e, 0, 0, 0)
		released, lost, broken := m.get(e.Name(), nil), m.get(e.Name(), nil), m.get(e.Name(), nil)
		waits, cancel := context.WithCancel(ctx)
		gaveUp := m.acquire(waits, e.Take(e.Name()).Req.Name, nil)
		e.Soon()
		counts.are(e, 3, 1, 0)
		cancel()
		<-gaveUp
		e.NoError(released.Release(ctx))
		counts.are(e, 2, 0, 0)
		e.Breaks(abstractions.BreakRequest{Name: broken.Name(), Immediate: true})
		e.Pause(e.Short)
		m.isLost(broken)
		counts.are(e, 1, 0, 0)
		m.bend(renews, lostReply)
		m.bend(releases, lostRequest)
		<-lost.Done()
		e.Pause(e.Short / 50) // until the backend would have freed the name
		counts.are(e, 0, 0, 1)
		m.bend(releases, nil)
		e.Pause(2 * e.Short)
		counts.are(e, 0, 0, 0)
		e.NoError(m.Close(ctx))
		counts.are(e, 0, 0, 0)
	}},
	{"Manager_Trap_T86_MetadataAreCopies", func(ctx context.Context, e *suite.Env, _ *managed) {
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
	{"Manager_MetadataChange", func(ctx context.Context, e *suite.Env, m *managed) {
		one, two := map[string]string{"n": "1"}, map[string]string{"n": "2"}
		lease := m.get(e.Name(), &leasing.AcquireOptions{Metadata: one})
		shows := func(want map[string]string) {
			e.Equal(want, lease.Metadata())
			e.Equal(want, e.Inspect(lease.Name()).Metadata)
		}
		shows(one)
		e.NoError(lease.SetMetadata(ctx, two))
		shows(two)

		// A request that the backend refuses does not cost the lease.
		m.bend(renews, func(x *exchange) error {
			if x.req.(abstractions.RenewRequest).Metadata["n"] == "too much" {
				return abstractions.ErrInvalid
			}
			return x.pass()
		})
		e.ErrorIs(lease.SetMetadata(ctx, map[string]string{"n": "too much"}), abstractions.ErrInvalid)
		e.Pause(2 * e.Short)
		m.isAlive(lease)
		shows(two)

		// Later renewals carry a change whose reply was lost. A copy of the change that arrives
		// after the next change is undone.
		var late func()
		m.bend(renews, func(x *exchange) error {
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

// counted is a meter that keeps the sums of the manager's counters.
type counted struct {
	noop.MeterProvider
	counts sync.Map // from the instrument's name to *count
}

type countingMeter struct {
	noop.Meter
	*counted
}

type count struct {
	noop.Int64UpDownCounter
	sum atomic.Int64
}

func (c *counted) Meter(string, ...metric.MeterOption) metric.Meter {
	return countingMeter{noop.Meter{}, c}
}

func (c countingMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	n, _ := c.counts.LoadOrStore(name, new(count))
	return n.(*count), nil
}

func (*count) Enabled(context.Context) bool { return true }

func (n *count) Add(_ context.Context, by int64, _ ...metric.AddOption) { n.sum.Add(by) }

// of returns the sum of the named instrument.
func (c *counted) of(name string) int64 {
	n, ok := c.counts.Load(name)
	if !ok {
		return -1
	}
	return n.(*count).sum.Load()
}

// are requires the counts after all immediate work is done.
func (c *counted) are(e *suite.Env, active, waiters, cleanups int64) {
	e.Soon()
	for name, want := range map[string]int64{"leasing.active.count": active, "leasing.waiters": waiters, "leasing.cleanups": cleanups} {
		e.Equal(want, c.of(name), name)
	}
}
