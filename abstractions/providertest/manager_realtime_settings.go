package providertest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// refuses says that err names the field that can't work.
func (e *env) refuses(field string, err error) {
	var invalid *abstractions.InvalidError
	e.ErrorIs(err, abstractions.ErrInvalid, field)
	e.ErrorAs(err, &invalid, field)
	e.Equal(field, invalid.Field)
	e.NotEmpty(invalid.Want, field)
}

// asks returns the request of an acquire that the line refuses, so that the backend grants nothing.
func (m *managed) asks(name string, o leasing.AcquireOptions) abstractions.AcquireRequest {
	m.bend(acquires, refused(abstractions.ErrDenied))
	_, err := m.With(o).TryAcquire(m.e.t.Context(), name)
	m.e.ErrorIs(err, abstractions.ErrDenied, "TryAcquire with %+v", o)
	sent := m.sendings(acquires)
	m.e.Len(sent, 1)
	return sent[0].req.(abstractions.AcquireRequest)
}

var managerRealSettingChecks = []managerCheck{
	{"SettingsThatCannotWorkAreRefused", func(ctx context.Context, e *env, m *managed) {
		long := strings.Repeat("x", leasing.MaxOwnerBytes+1)
		ttl := func(o leasing.Options) leasing.Options {
			o.TTL = e.long
			return o
		}
		for _, c := range []struct {
			field   string
			options leasing.Options
		}{
			{"Options.Owner", leasing.Options{Owner: long}},
			{"Options.Owner", leasing.Options{Owner: "line\nbreak"}},
			{"Options.TTL", leasing.Options{TTL: -time.Second}},
			{"Options.TTL", leasing.Options{TTL: leasing.Infinite}},
			{"Options.RenewFraction", leasing.Options{RenewFraction: 1}},
			{"Options.RenewFraction", leasing.Options{RenewFraction: -0.1}},
			{"Options.RenewFraction", leasing.Options{RenewFraction: math.NaN()}},
			{"Options.RenewFraction", ttl(leasing.Options{RenewFraction: 0.5, RenewCadence: time.Second})},
			{"Options.RenewFraction", ttl(leasing.Options{RenewFraction: 0.999})},
			{"Options.RenewFraction", leasing.Options{RenewFraction: 0.5, NoAutoRenew: true}},
			{"Options.RenewCadence", leasing.Options{RenewCadence: -1}},
			{"Options.RenewCadence", ttl(leasing.Options{RenewCadence: e.long})},
			{"Options.RenewCadence", leasing.Options{RenewCadence: time.Second, NoAutoRenew: true}},
			{"Options.RefusalTimeout", leasing.Options{RefusalTimeout: -1}},
			{"Options.TTL", ttl(leasing.Options{Tuning: leasing.Tuning{DriftFloor: e.long}})},
			{"Options.TTL", ttl(leasing.Options{Tuning: leasing.Tuning{DriftFloor: e.long / 2}})},
			{"Options.Tuning.DriftFactor", leasing.Options{Tuning: leasing.Tuning{DriftFactor: -0.1}}},
			{"Options.Tuning.DriftFactor", leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.5}}},
			{"Options.Tuning.DriftFactor", leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.45}}},
			{"Options.Tuning.DriftFloor", leasing.Options{Tuning: leasing.Tuning{DriftFloor: -1}}},
			{"Options.Tuning.RequestTimeout", leasing.Options{Tuning: leasing.Tuning{RequestTimeout: -1}}},
			{"Options.Tuning.HealthTimeout", leasing.Options{Tuning: leasing.Tuning{HealthTimeout: -1}}},
			{"Options.Tuning.RenewConcurrency", leasing.Options{Tuning: leasing.Tuning{RenewConcurrency: -1}}},
			{"Options.Tuning.RenewBatch", leasing.Options{Tuning: leasing.Tuning{RenewBatch: -1}}},
			{"Options.Tuning.MinPoll", leasing.Options{Tuning: leasing.Tuning{MinPoll: -1}}},
			{"Options.Tuning.MaxPoll", leasing.Options{Tuning: leasing.Tuning{MinPoll: time.Second, MaxPoll: time.Millisecond}}},
			{"Options.Tuning.ObserverTimeout", leasing.Options{Tuning: leasing.Tuning{ObserverTimeout: -1}}},
		} {
			_, err := leasing.NewManager(e.p, c.options)
			e.refuses(c.field, err)
		}
		_, err := leasing.NewManager(nil, leasing.Options{})
		e.refuses("provider", err)

		for _, v := range []verb{acquires, renews, inspects, breaks} {
			m.bend(v, nil)
		}
		for _, c := range []struct {
			field   string
			options leasing.AcquireOptions
		}{
			{"TTL", leasing.AcquireOptions{TTL: -time.Second}},
			{"TTL", leasing.AcquireOptions{TTL: leasing.Infinite, NoAutoRenew: true}},
			{"MaxRenewals", leasing.AcquireOptions{MaxRenewals: -1}},
			{"MaxRenewals", leasing.AcquireOptions{TTL: leasing.Infinite, MaxRenewals: 1}},
			{"RenewFraction", leasing.AcquireOptions{RenewFraction: 1}},
			{"RenewFraction", leasing.AcquireOptions{RenewFraction: 0.5, RenewCadence: time.Second}},
			{"RenewCadence", leasing.AcquireOptions{TTL: e.long, RenewCadence: e.long}},
			{"RenewCadence", leasing.AcquireOptions{RenewCadence: time.Second, NoAutoRenew: true}},
		} {
			e.refuses("AcquireOptions."+c.field, second(m.With(c.options).TryAcquire(ctx, e.name())))
			e.refuses("AcquireOptions."+c.field, second(m.With(c.options).Acquire(ctx, e.name())))
			o := c.options
			e.refuses("AdoptOptions."+c.field, second(m.Adopt(ctx, leasing.Handover{Name: e.name(), ID: e.id(), Token: 1}, leasing.AdoptOptions{
				TTL: o.TTL, RenewFraction: o.RenewFraction, RenewCadence: o.RenewCadence, NoAutoRenew: o.NoAutoRenew, MaxRenewals: o.MaxRenewals,
			})))
		}
		e.refuses("AcquireOptions.WaitLimit", second(m.With(leasing.AcquireOptions{WaitLimit: -1}).Acquire(ctx, e.name())))
		tooMuch := leasing.AcquireOptions{Metadata: map[string]string{"k": strings.Repeat("x", leasing.MaxMetadataBytes)}}
		e.ErrorIs(second(m.With(tooMuch).TryAcquire(ctx, e.name())), abstractions.ErrInvalid)
		for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", leasing.MaxNameBytes+1)} {
			for _, err := range []error{
				m.try(ctx, name), second(m.Acquire(ctx, name)), second(m.Inspect(ctx, name)), second(m.Break(ctx, name, leasing.BreakOptions{})),
				second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.id(), Token: 1}, leasing.AdoptOptions{})),
			} {
				e.refuses("Name", err)
			}
		}
		e.refuses("Handover.Token", second(m.Adopt(ctx, leasing.Handover{Name: e.name(), ID: e.id()}, leasing.AdoptOptions{})))
		e.refuses("ID", second(m.Adopt(ctx, leasing.Handover{Name: e.name(), Token: 1}, leasing.AdoptOptions{})))
		e.refuses("BreakOptions.Grace", second(m.Break(ctx, e.name(), leasing.BreakOptions{Immediate: true, Grace: time.Second})))
		e.refuses("Grace", second(m.Break(ctx, e.name(), leasing.BreakOptions{Grace: -1})))
		for _, v := range []verb{acquires, renews, inspects, breaks} {
			e.Empty(m.sendings(v), "requests that can't work")
		}
	}},
	{"ATTLIsMadeToFit", func(ctx context.Context, e *env, m *managed) {
		plain, err := leasing.NewManager(e.p, leasing.Options{})
		e.NoError(err)
		defer plain.Close(ctx)
		lease, err := plain.TryAcquire(ctx, e.name())
		e.NoError(err)
		e.Equal(grantable(30*time.Second, e.caps), lease.TTL(), "the default TTL")
		e.NoError(lease.Release(ctx))

		unit := max(e.caps.Granularity, 1)
		e.Equal(e.long, m.asks(e.name(), leasing.AcquireOptions{TTL: e.long - unit + 1}).TTL, "a TTL is rounded up to Capabilities.Granularity")
		if most := e.caps.MaxTTL; most > 0 {
			e.Equal(most, m.asks(e.name(), leasing.AcquireOptions{TTL: most + unit}).TTL, "a TTL is cut to Capabilities.MaxTTL")
			e.refuses("AcquireOptions.TTL", second(m.With(leasing.AcquireOptions{TTL: most + unit, NoAutoRenew: true}).TryAcquire(ctx, e.name())))
		}
		if below := e.caps.MinTTL - unit; below > 0 {
			e.refuses("AcquireOptions.TTL", second(m.With(leasing.AcquireOptions{TTL: below}).TryAcquire(ctx, e.name())))
			raised := e.manage(e.p, leasing.Options{RaiseToMinTTL: true})
			e.Equal(e.caps.MinTTL, raised.asks(e.name(), leasing.AcquireOptions{TTL: below}).TTL, "RaiseToMinTTL")
		}
		if infinite := (leasing.AcquireOptions{TTL: leasing.Infinite}); e.caps.Infinite {
			e.NotEqual(leasing.Infinite, m.asks(e.name(), infinite).TTL, "an infinite lease begins as a finite one")
		} else {
			e.refuses("AcquireOptions.TTL", second(m.With(infinite).TryAcquire(ctx, e.name())))
		}
	}},
	{"ThePolicyChoosesTheTTL", func(ctx context.Context, e *env, _ *managed) {
		var mu sync.Mutex
		var asked []leasing.TTLRequest
		chosen := e.long
		options := leasing.Options{TTLPolicy: func(req leasing.TTLRequest) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, req)
			return chosen
		}}
		m := e.manage(e.p, options)
		name := e.name()
		e.Equal(e.long, m.asks(name, leasing.AcquireOptions{}).TTL)
		e.Equal(e.long, m.asks(name, leasing.AcquireOptions{TTL: e.short}).TTL, "the policy overrides AcquireOptions.TTL")
		e.Equal([]leasing.TTLRequest{{Name: name, TTL: e.short}, {Name: name, TTL: e.short}}, asked, "the policy is asked once for each acquire")
		for _, ttl := range []time.Duration{0, -time.Second} {
			chosen = ttl
			e.Equal(e.long, m.asks(name, leasing.AcquireOptions{TTL: e.long}).TTL, "the policy leaves the TTL as it was")
		}
		if chosen = leasing.Infinite; e.caps.MaxTTL > 0 {
			e.Equal(e.caps.MaxTTL, m.asks(name, leasing.AcquireOptions{}).TTL, "the policy's result is cut to what the backend grants")
		}
		asked = nil
		if e.caps.Infinite {
			m.asks(name, leasing.AcquireOptions{TTL: leasing.Infinite})
		}
		e.ErrorIs(second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.id(), Token: 1}, leasing.AdoptOptions{})), abstractions.ErrLost)
		e.Empty(asked, "the policy is asked neither for an infinite lease nor by Adopt")

		// A result is raised to the TTL that renewals need, and not beyond.
		for _, tuning := range []leasing.Tuning{{}, {DriftFloor: 1}, {DriftFloor: 10 * time.Second}, {DriftFloor: time.Second, DriftFactor: 0.3}} {
			chosen = 1
			options.TTL, options.Tuning = e.long, tuning
			if tuning.DriftFloor >= e.long/5 {
				continue // a TTL of the manager would not fit
			}
			m := e.manage(e.p, options)
			ttl := m.asks(name, leasing.AcquireOptions{}).TTL
			factor, floor := tuning.DriftFactor, tuning.DriftFloor
			if factor == 0 {
				factor = 0.01
			}
			if floor == 0 {
				floor = 2 * time.Millisecond
			}
			least := time.Duration(float64(floor) / (1 - 0.6 - factor))
			e.GreaterOrEqual(ttl, least, "%+v", tuning)
			e.LessOrEqual(ttl, max(e.caps.MinTTL, least+2*time.Millisecond)+e.caps.Granularity, "%+v", tuning)
		}
	}},
	// It watches the requests of a lease whose renewals are slow, and of one whose renewals come often.
	{"RenewalsKeepTheirCadence", func(_ context.Context, e *env, _ *managed) {
		tenth := e.short / 10
		for _, c := range []struct {
			manager leasing.Options
			lease   leasing.AcquireOptions
		}{
			{leasing.Options{RenewFraction: 0.1}, leasing.AcquireOptions{}},
			{leasing.Options{RenewCadence: tenth}, leasing.AcquireOptions{}},
			{leasing.Options{RenewFraction: 0.5}, leasing.AcquireOptions{RenewCadence: tenth}},
			{leasing.Options{RenewCadence: e.short / 2}, leasing.AcquireOptions{RenewFraction: 0.1}},
		} {
			e.calm(func() error {
				m := e.manage(e.p, c.manager, hiding(batches))
				lease, err := m.With(c.lease).TryAcquire(e.t.Context(), e.name())
				if err != nil {
					return err
				}
				e.eventually("three renewals", func() bool { return lease.Err() != nil || lease.Renewals() >= 3 })
				if err := lease.Err(); err != nil {
					return err
				}
				last := m.sendings(acquires)[0].at
				for _, renewal := range m.sendings(renews) {
					if pause := renewal.at.Sub(last); pause < tenth*9/10 || pause > 2*tenth {
						return fmt.Errorf("a renewal after %v, where %v was asked for", pause, tenth)
					}
					last = renewal.at
				}
				return lease.Release(e.t.Context())
			})
		}
	}},
	{"RenewalsEndAtTheirLimit", func(ctx context.Context, e *env, _ *managed) {
		e.calm(func() error {
			m := e.manage(e.p, leasing.Options{RenewFraction: 0.1}, hiding(batches))
			begun := time.Now()
			lease, err := m.With(leasing.AcquireOptions{MaxRenewals: 2}).TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			m.ends(lease, 2*e.short+e.h.Slack)
			sent := m.sendings(renews)
			if len(sent) != 2 || lease.Renewals() != 2 {
				return fmt.Errorf("%d renewals, of which %d succeeded", len(sent), lease.Renewals())
			}
			m.isLost(lease, abstractions.LostRenewalLimit)
			if lasted := time.Since(begun); lasted < e.short || lasted > e.short*14/10 {
				return fmt.Errorf("a lease of %v that was renewed twice at a tenth lasted for %v", e.short, lasted)
			}
			return nil
		})
		m := e.manage(e.p, leasing.Options{})
		lease := m.get(e.name(), &leasing.AcquireOptions{MaxRenewals: 1, NoAutoRenew: true, TTL: e.long})
		e.NoError(lease.Renew(ctx))
		m.bend(renews, nil)
		e.refuses("AcquireOptions.MaxRenewals", lease.Renew(ctx))
		m.isAlive(lease)
		_, err := lease.HandOver(ctx)
		e.NoError(err, "HandOver needs no renewal that is used up")
		e.Empty(m.sendings(renews))
	}},
	{"AnotherTTL", func(ctx context.Context, e *env, m *managed) {
		less, least := grantable(e.long/2, e.caps), grantable(e.long/4, e.caps)
		lease := m.get(e.name(), e.heldLong())
		e.NoError(lease.SetTTL(ctx, less))
		e.Equal([]time.Duration{less, less}, []time.Duration{lease.TTL(), e.inspect(lease.Name()).TTL})
		e.Equal(1, lease.Renewals(), "SetTTL counts as a renewal")
		m.trusts(lease, less)
		m.bend(renews, lostReply)
		e.ErrorIs(lease.SetTTL(ctx, least), abstractions.ErrUnavailable)
		m.trusts(lease, least)
		m.bend(renews, nil)
		e.NoError(lease.SetTTL(ctx, e.long))
		e.Equal(e.long, lease.TTL())
		m.trusts(lease, least) // the reply was lost, or the request may yet arrive
		e.refuses("ttl", lease.SetTTL(ctx, leasing.Infinite))
		e.refuses("ttl", lease.SetTTL(ctx, -1))
		m.isAlive(lease)
		e.NoError(lease.Release(ctx))
		e.ErrorIs(lease.SetTTL(ctx, less), abstractions.ErrReleased)
	}},
}

// trusts says that a lease that was just renewed is trusted for most of ttl, and no longer.
func (m *managed) trusts(lease *leasing.Lease, ttl time.Duration) {
	left := lease.Remaining()
	m.e.LessOrEqual(left, window(ttl), "trust in a lease of %v", ttl)
	m.e.Greater(left, ttl/2, "trust in a lease of %v", ttl)
}
