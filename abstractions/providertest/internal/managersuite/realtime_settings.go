package managersuite

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// checkInvalid requires that err names the invalid field.
func checkInvalid(e *suite.Env, field string, err error) {
	var invalid *abstractions.InvalidError
	e.ErrorIs(err, abstractions.ErrInvalid, field)
	e.ErrorAs(err, &invalid, field)
	e.Equal(field, invalid.Field)
	e.NotEmpty(invalid.Want, field)
}

// requestOf returns the request that an acquire sends. A fault refuses the request on its way to the
// backend.
func (m *testManager) requestOf(name string, o leasing.AcquireOptions) abstractions.AcquireRequest {
	m.setFault(acquires, refusal(abstractions.ErrDenied))
	_, err := m.With(o).TryAcquire(m.e.T.Context(), name)
	m.e.ErrorIs(err, abstractions.ErrDenied, "TryAcquire with %+v", o)
	sent := m.requests(acquires)
	m.e.Len(sent, 1)
	return sent[0].req.(abstractions.AcquireRequest)
}

var realSettingChecks = []managerCheck{
	{"SettingsThatCannotWorkAreRefused", func(ctx context.Context, e *suite.Env, m *testManager) {
		long := strings.Repeat("x", leasing.MaxOwnerBytes+1)
		ttl := func(o leasing.Options) leasing.Options {
			o.TTL = e.Long
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
			{"Options.RenewCadence", ttl(leasing.Options{RenewCadence: e.Long})},
			{"Options.RenewCadence", leasing.Options{RenewCadence: time.Second, NoAutoRenew: true}},
			{"Options.RefusalTimeout", leasing.Options{RefusalTimeout: -1}},
			{"Options.TTL", ttl(leasing.Options{Tuning: leasing.Tuning{DriftFloor: e.Long}})},
			{"Options.TTL", ttl(leasing.Options{Tuning: leasing.Tuning{DriftFloor: e.Long / 2}})},
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
			_, err := leasing.NewManager(e.P, c.options)
			checkInvalid(e, c.field, err)
		}
		_, err := leasing.NewManager(nil, leasing.Options{})
		checkInvalid(e, "provider", err)

		for _, v := range []verb{acquires, renews, inspects, breaks} {
			m.setFault(v, nil)
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
			{"RenewCadence", leasing.AcquireOptions{TTL: e.Long, RenewCadence: e.Long}},
			{"RenewCadence", leasing.AcquireOptions{RenewCadence: time.Second, NoAutoRenew: true}},
		} {
			checkInvalid(e, "AcquireOptions."+c.field, suite.Second(m.With(c.options).TryAcquire(ctx, e.Name())))
			checkInvalid(e, "AcquireOptions."+c.field, suite.Second(m.With(c.options).Acquire(ctx, e.Name())))
			o := c.options
			checkInvalid(e, "AdoptOptions."+c.field, suite.Second(m.Adopt(ctx, leasing.Handover{Name: e.Name(), ID: e.Id(), Token: 1}, leasing.AdoptOptions{
				TTL: o.TTL, RenewFraction: o.RenewFraction, RenewCadence: o.RenewCadence, NoAutoRenew: o.NoAutoRenew, MaxRenewals: o.MaxRenewals,
			})))
		}
		checkInvalid(e, "AcquireOptions.WaitLimit", suite.Second(m.With(leasing.AcquireOptions{WaitLimit: -1}).Acquire(ctx, e.Name())))
		tooMuch := leasing.AcquireOptions{Metadata: map[string]string{"k": strings.Repeat("x", leasing.MaxMetadataBytes)}}
		e.ErrorIs(suite.Second(m.With(tooMuch).TryAcquire(ctx, e.Name())), abstractions.ErrInvalid)
		for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", leasing.MaxNameBytes+1)} {
			for _, err := range []error{
				m.try(ctx, name), suite.Second(m.Acquire(ctx, name)), suite.Second(m.Inspect(ctx, name)), suite.Second(m.Break(ctx, name, leasing.BreakOptions{})),
				suite.Second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.Id(), Token: 1}, leasing.AdoptOptions{})),
			} {
				checkInvalid(e, "Name", err)
			}
		}
		checkInvalid(e, "Handover.Token", suite.Second(m.Adopt(ctx, leasing.Handover{Name: e.Name(), ID: e.Id()}, leasing.AdoptOptions{})))
		checkInvalid(e, "ID", suite.Second(m.Adopt(ctx, leasing.Handover{Name: e.Name(), Token: 1}, leasing.AdoptOptions{})))
		checkInvalid(e, "BreakOptions.Grace", suite.Second(m.Break(ctx, e.Name(), leasing.BreakOptions{Immediate: true, Grace: time.Second})))
		checkInvalid(e, "Grace", suite.Second(m.Break(ctx, e.Name(), leasing.BreakOptions{Grace: -1})))
		for _, v := range []verb{acquires, renews, inspects, breaks} {
			e.Empty(m.requests(v), "requests that can't work")
		}
	}},
	{"ATTLIsMadeToFit", func(ctx context.Context, e *suite.Env, m *testManager) {
		plain, err := leasing.NewManager(e.P, leasing.Options{})
		e.NoError(err)
		defer plain.Close(ctx)
		lease, err := plain.TryAcquire(ctx, e.Name())
		e.NoError(err)
		e.Equal(suite.Grantable(30*time.Second, e.Caps), lease.TTL(), "the default TTL")
		e.NoError(lease.Release(ctx))

		unit := max(e.Caps.Granularity, 1)
		e.Equal(e.Long, m.requestOf(e.Name(), leasing.AcquireOptions{TTL: e.Long - unit + 1}).TTL, "a TTL is rounded up to Capabilities.Granularity")
		if most := e.Caps.MaxTTL; most > 0 {
			e.Equal(most, m.requestOf(e.Name(), leasing.AcquireOptions{TTL: most + unit}).TTL, "a TTL is cut to Capabilities.MaxTTL")
			checkInvalid(e, "AcquireOptions.TTL", suite.Second(m.With(leasing.AcquireOptions{TTL: most + unit, NoAutoRenew: true}).TryAcquire(ctx, e.Name())))
		}
		if below := e.Caps.MinTTL - unit; below > 0 {
			checkInvalid(e, "AcquireOptions.TTL", suite.Second(m.With(leasing.AcquireOptions{TTL: below}).TryAcquire(ctx, e.Name())))
			raised := manage(e, e.P, leasing.Options{RaiseToMinTTL: true})
			e.Equal(e.Caps.MinTTL, raised.requestOf(e.Name(), leasing.AcquireOptions{TTL: below}).TTL, "RaiseToMinTTL")
		}
		if infinite := (leasing.AcquireOptions{TTL: leasing.Infinite}); e.Caps.Infinite {
			e.NotEqual(leasing.Infinite, m.requestOf(e.Name(), infinite).TTL, "an infinite lease begins as a finite one")
		} else {
			checkInvalid(e, "AcquireOptions.TTL", suite.Second(m.With(infinite).TryAcquire(ctx, e.Name())))
		}
	}},
	{"ThePolicyChoosesTheTTL", func(ctx context.Context, e *suite.Env, _ *testManager) {
		var mu sync.Mutex
		var requests []leasing.TTLRequest
		chosen := e.Long
		options := leasing.Options{TTLPolicy: func(req leasing.TTLRequest) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, req)
			return chosen
		}}
		m := manage(e, e.P, options)
		name := e.Name()
		e.Equal(e.Long, m.requestOf(name, leasing.AcquireOptions{}).TTL)
		e.Equal(e.Long, m.requestOf(name, leasing.AcquireOptions{TTL: e.Short}).TTL, "the policy overrides AcquireOptions.TTL")
		e.Equal([]leasing.TTLRequest{{Name: name, TTL: e.Short}, {Name: name, TTL: e.Short}}, requests, "the policy is asked once for each acquire")
		for _, ttl := range []time.Duration{0, -time.Second} {
			chosen = ttl
			e.Equal(e.Long, m.requestOf(name, leasing.AcquireOptions{TTL: e.Long}).TTL, "the policy leaves the TTL as it was")
		}
		if chosen = leasing.Infinite; e.Caps.MaxTTL > 0 {
			e.Equal(e.Caps.MaxTTL, m.requestOf(name, leasing.AcquireOptions{}).TTL, "the policy's result is cut to what the backend grants")
		}
		requests = nil
		if e.Caps.Infinite {
			m.requestOf(name, leasing.AcquireOptions{TTL: leasing.Infinite})
		}
		e.ErrorIs(suite.Second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.Id(), Token: 1}, leasing.AdoptOptions{})), abstractions.ErrLost)
		e.Empty(requests, "the policy is asked neither for an infinite lease nor by Adopt")

		// A TTL from the policy is raised to the minimum that renewals need, and no higher.
		for _, tuning := range []leasing.Tuning{{}, {DriftFloor: 1}, {DriftFloor: 10 * time.Second}, {DriftFloor: time.Second, DriftFactor: 0.3}} {
			chosen = 1
			options.TTL, options.Tuning = e.Long, tuning
			if tuning.DriftFloor >= e.Long/5 {
				continue // the TTL of the manager would be too short
			}
			m := manage(e, e.P, options)
			ttl := m.requestOf(name, leasing.AcquireOptions{}).TTL
			factor, floor := tuning.DriftFactor, tuning.DriftFloor
			if factor == 0 {
				factor = 0.01
			}
			if floor == 0 {
				floor = 2 * time.Millisecond
			}
			least := time.Duration(float64(floor) / (1 - 0.6 - factor))
			e.GreaterOrEqual(ttl, least, "%+v", tuning)
			e.LessOrEqual(ttl, max(e.Caps.MinTTL, least+2*time.Millisecond)+e.Caps.Granularity, "%+v", tuning)
		}
	}},
	{"AnotherTTL", func(ctx context.Context, e *suite.Env, m *testManager) {
		less, least := suite.Grantable(e.Long/2, e.Caps), suite.Grantable(e.Long/4, e.Caps)
		lease := m.get(e.Name(), longOptions(e))
		e.NoError(lease.SetTTL(ctx, less))
		e.Equal([]time.Duration{less, less}, []time.Duration{lease.TTL(), e.Inspect(lease.Name()).TTL})
		e.Equal(1, lease.Renewals(), "SetTTL counts as a renewal")
		m.checkFreshTrust(lease, less)
		m.setFault(renews, lostReply)
		e.ErrorIs(lease.SetTTL(ctx, least), abstractions.ErrUnavailable)
		m.checkFreshTrust(lease, least)
		m.setFault(renews, nil)
		e.NoError(lease.SetTTL(ctx, e.Long))
		e.Equal(e.Long, lease.TTL())
		m.checkFreshTrust(lease, least) // the reply was lost, or the request may yet arrive
		checkInvalid(e, "ttl", lease.SetTTL(ctx, leasing.Infinite))
		checkInvalid(e, "ttl", lease.SetTTL(ctx, -1))
		m.isAlive(lease)
		e.NoError(lease.Release(ctx))
		e.ErrorIs(lease.SetTTL(ctx, less), abstractions.ErrReleased)
	}},
}

// checkFreshTrust requires that a lease that was just renewed is trusted for more than half of ttl, and for
// less than the whole.
func (m *testManager) checkFreshTrust(lease *leasing.Lease, ttl time.Duration) {
	left := lease.Remaining()
	m.e.LessOrEqual(left, window(ttl), "trust in a lease of %v", ttl)
	m.e.Greater(left, ttl/2, "trust in a lease of %v", ttl)
}
