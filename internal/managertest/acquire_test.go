package managertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestTrap_T13_LostReplyDoesNotBlockItsOwnRetry(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 2, errNetwork))
		start := time.Now()
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Minute})
		require.Less(t, time.Since(start), time.Second)
		asked := callIDs(p.Calls(), leasingtest.Acquire)
		require.Equal(t, []string{l.ID(), l.ID(), l.ID()}, asked, "one ID over all attempts")
	})
}

func TestTrap_T16_UnknownAcquireIsCleanedUp(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		remove := p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, errNetwork))
		_, err := m.TryAcquire(t.Context(), name)
		remove()
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		synctest.Wait()
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestTrap_T16_GrantAfterTheCallerGaveUpIsReleased(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		ctx, cancel := context.WithCancel(t.Context())
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire {
				defer cancel()
			}
			return apply()
		})
		_, err := m.Acquire(ctx, name)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestTrap_T56_DelayedAcquireDoesNotLandAsAGhost(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		landed := make(chan error, 1)
		remove := p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op != leasingtest.Acquire {
				return apply()
			}
			time.AfterFunc(4*time.Second, func() { landed <- apply() }) // still on its way when the caller leaves
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Acquire(ctx, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		remove()
		require.ErrorIs(t, <-landed, leasing.ErrReleased)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestTrap_T56_CleanUpIsRepeatedUntilTheTTLHasPassed(t *testing.T) {
	// A backend that has forgotten which IDs were released grants a late acquire. The next attempt of the clean-up then
	// releases the claim.
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		firstID := ""
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire && firstID == "" {
				firstID = call.ID
				<-ctx.Done()
				return ctx.Err()
			}
			return apply()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Acquire(ctx, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		released := callTimes(p.Calls(), leasingtest.Release)
		require.GreaterOrEqual(t, len(released), 4)
		require.LessOrEqual(t, len(released), 20)
		require.Greater(t, released[len(released)-1].Sub(released[0]), 25*time.Second)
		require.Less(t, released[len(released)-1].Sub(released[0]), 31*time.Second)
	})
}

func TestTrap_T62_LeaseOutlivesTheContextThatAcquiredIt(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), 5*time.Second)
		l, err := m.Acquire(ctx, name)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, l.Context().Err())
		_, deadline := l.Context().Deadline()
		require.False(t, deadline)
		require.Equal(t, "kept", l.Context().Value(key{}))
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestTryAcquireAsksOnce(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: map[string]string{"address": "10.0.0.1"}})
		_, err := m.TryAcquire(t.Context(), name)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, l.Owner(), held.Holder.Owner)
		require.Equal(t, l.Token(), held.Holder.Token)
		require.Equal(t, "10.0.0.1", held.Holder.Metadata["address"])
		require.Equal(t, 2, p.Count(leasingtest.Acquire))
		var wrapped *leasing.Error
		require.ErrorAs(t, err, &wrapped)
		require.Equal(t, leasing.Error{Op: "acquire", Provider: "memory", Name: name, Err: wrapped.Err, Fingerprint: wrapped.Fingerprint}, *wrapped)
	})
}

func TestTrap_T30_WaitLimits(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		for _, limit := range []time.Duration{1, time.Second, 90 * time.Second} {
			before, start := p.Count(leasingtest.Acquire), time.Now()
			_, err := m.With(leasing.AcquireOptions{WaitLimit: limit}).Acquire(t.Context(), name)
			require.ErrorIs(t, err, leasing.ErrHeld)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, limit, time.Since(start))
			require.Greater(t, p.Count(leasingtest.Acquire), before, "it always asks at least once")
		}
		_, err := m.With(leasing.AcquireOptions{WaitLimit: -1}).Acquire(t.Context(), name)
		requireInvalid(t, err, "AcquireOptions.WaitLimit")
		// Without a limit, Acquire waits until the name is free.
		time.AfterFunc(26*time.Hour, func() { _ = l.Release(context.Background()) })
		start := time.Now()
		next, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, 26*time.Hour, time.Since(start).Truncate(time.Second))
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestTrap_T31_OneFailureDoesNotEndTheWait(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Acquire, 5, errNetwork))
		p.Use(leasingtest.Fail(leasingtest.Acquire, 2, &leasing.ThrottledError{RetryAfter: 3 * time.Second}))
		start := time.Now()
		l := acquire(t, m, nil)
		require.GreaterOrEqual(t, time.Since(start), 6*time.Second, "throttling was respected")
		require.Less(t, time.Since(start), 15*time.Second)
		require.NoError(t, l.Err())
	})
}

func TestPermanentErrorsEndTheWait(t *testing.T) {
	for _, permanent := range []error{leasing.ErrNotSetUp, leasing.ErrInvalid, leasing.ErrClosed} {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, permanent))
			_, err := m.Acquire(t.Context(), name)
			require.ErrorIs(t, err, permanent)
			require.Equal(t, 1, p.Count(leasingtest.Acquire))
			require.Zero(t, p.Count(leasingtest.Release), "nothing to clean up")
		})
	}
}

func TestTrap_T33_RequestEndsWithTheWait(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Hour}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Acquire, leasingtest.Always))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := m.Acquire(ctx, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))

		start = time.Now()
		_, err = m.With(leasing.AcquireOptions{WaitLimit: 5 * time.Second}).Acquire(t.Context(), name)
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 6*time.Second, "the limit, and a second for the request under way")

		start = time.Now()
		_, err = m.TryAcquire(t.Context(), name)
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 30*time.Second, "a grant that came after its TTL would be useless")
	})
}

func TestEveryCallIsBounded(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 2 * time.Second, HealthTimeout: 2 * time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for _, op := range []leasingtest.Op{leasingtest.Acquire, leasingtest.Inspect, leasingtest.Break, leasingtest.List, leasingtest.Ping} {
			p.Use(leasingtest.Hang(op, leasingtest.Always))
		}
		ctx := context.Background()
		for what, call := range map[string]func() error{
			"acquire": func() error { _, err := m.TryAcquire(ctx, name); return err },
			"inspect": func() error { _, err := m.Inspect(ctx, name); return err },
			"break":   func() error { _, err := m.Break(ctx, name, leasing.BreakOptions{}); return err },
			"list": func() error {
				for _, err := range m.List(ctx, leasing.ListOptions{}) {
					return err
				}
				return nil
			},
			"health": func() error { return errors.New(m.Health(ctx).Error) },
		} {
			start := time.Now()
			require.Error(t, call(), what)
			require.Equal(t, 2*time.Second, time.Since(start), what)
		}
	})
}

func TestLateGrantIsNotTrusted(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for delay, want := range map[time.Duration]string{
			time.Second:     "after its own trust had run out",
			2 * time.Second: "has not returned",
		} {
			remove := p.Use(leasingtest.DelayReply(leasingtest.Acquire, 1, delay))
			_, err := m.With(leasing.AcquireOptions{TTL: time.Second}).TryAcquire(t.Context(), name)
			require.ErrorContains(t, err, want)
			remove()
			time.Sleep(2 * time.Second)
		}
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		require.NoError(t, l.Err())
	})
}

func TestNonsensicalGrantIsRefused(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(context.Context, leasingtest.Call, func() error) error { return nil })
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorContains(t, err, "the provider answered for")
	})
}

func TestBadInputNamesTheField(t *testing.T) {
	long := strings.Repeat("x", leasing.MaxNameBytes+1)
	limits := narrowLimits{memlease.New(memlease.Options{}), leasing.Capabilities{
		Provider: "capped", MinTTL: 15 * time.Second, MaxTTL: time.Minute, Granularity: time.Second,
	}}
	m, err := leasing.NewManager(limits, leasing.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	for want, test := range map[string]struct {
		name    string
		options leasing.AcquireOptions
	}{
		`Name "": want 1 to 512 bytes`:               {name: ""},
		`bytes, not 513`:                             {name: long},
		`want no control characters`:                 {name: "a\nb"},
		`want valid UTF-8`:                           {name: "a\xff"},
		`AcquireOptions.TTL -1s: want more than 0`:   {name: "a", options: leasing.AcquireOptions{TTL: -time.Second}},
		`AcquireOptions.TTL 14s: want at least 15s`:  {name: "a", options: leasing.AcquireOptions{TTL: 14 * time.Second}},
		`AcquireOptions.TTL 1m1s: want at most 1m0s`: {name: "a", options: leasing.AcquireOptions{TTL: 61 * time.Second, NoAutoRenew: true}},
		`AcquireOptions.TTL Infinite: want at most`:  {name: "a", options: leasing.AcquireOptions{TTL: leasing.Infinite}},
		`AcquireOptions.RenewCadence 20s: want a renewal after 1ms or more, and before 19.798s`: {name: "a", options: leasing.AcquireOptions{TTL: 20 * time.Second, RenewCadence: 20 * time.Second}},
		`AcquireOptions.RenewCadence 1ns: want a renewal after 1ms`:                             {name: "a", options: leasing.AcquireOptions{RenewCadence: 1}},
		`AcquireOptions.RenewFraction 1e-12: want a renewal after`:                              {name: "a", options: leasing.AcquireOptions{RenewFraction: 1e-12}},
		`AcquireOptions.RenewCadence -1ns`:                                                      {name: "a", options: leasing.AcquireOptions{RenewCadence: -1}},
		`AcquireOptions.RenewFraction 1: want more than 0 and less`:                             {name: "a", options: leasing.AcquireOptions{RenewFraction: 1}},
		`AcquireOptions.RenewFraction 0.999: want`:                                              {name: "a", options: leasing.AcquireOptions{RenewFraction: 0.999}},
		`use one of the two`:            {name: "a", options: leasing.AcquireOptions{RenewFraction: .5, RenewCadence: 1}},
		`AcquireOptions.MaxRenewals -1`: {name: "a", options: leasing.AcquireOptions{MaxRenewals: -1}},
		`AcquireOptions.WaitLimit -2ns`: {name: "a", options: leasing.AcquireOptions{WaitLimit: -2}},
		`Metadata "4097 bytes"`:         {name: "a", options: leasing.AcquireOptions{Metadata: map[string]string{"k": strings.Repeat("v", 4096)}}},
		`Metadata["k"]`:                 {name: "a", options: leasing.AcquireOptions{Metadata: map[string]string{"k": "\x00"}}},
		`Metadata key "": want 1 to`:    {name: "a", options: leasing.AcquireOptions{Metadata: map[string]string{"": ""}}},
	} {
		_, err := m.With(test.options).Acquire(t.Context(), test.name)
		require.ErrorIs(t, err, leasing.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	for want, options := range map[string]leasing.Options{
		"Options.TTL -1s":                    {TTL: -time.Second},
		"Options.TTL 1s: want at":            {TTL: time.Second},
		"Options.TTL Infinite":               {TTL: leasing.Infinite},
		"Options.RenewCadence 1h":            {RenewCadence: time.Hour},
		"Options.RenewFraction":              {RenewFraction: -1},
		"Options.Tuning.DriftFactor":         {Tuning: leasing.Tuning{DriftFactor: 1}},
		"Options.Tuning.DriftFloor":          {Tuning: leasing.Tuning{DriftFloor: -1}},
		"Options.Tuning.RequestTimeout":      {Tuning: leasing.Tuning{RequestTimeout: -1}},
		"Options.Tuning.RenewConcurrency -1": {Tuning: leasing.Tuning{RenewConcurrency: -1}},
		"Options.Tuning.RenewBatch":          {Tuning: leasing.Tuning{RenewBatch: -1}},
		"Options.Tuning.MinPoll":             {Tuning: leasing.Tuning{MinPoll: -1, MaxPoll: 1}},
		"Options.Tuning.MaxPoll":             {Tuning: leasing.Tuning{MaxPoll: time.Millisecond}},
		"Options.Tuning.ObserverTimeout":     {Tuning: leasing.Tuning{ObserverTimeout: -1}},
		"Options.Owner":                      {Owner: strings.Repeat("x", 257)},
	} {
		_, err := leasing.NewManager(limits, options)
		require.ErrorIs(t, err, leasing.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	_, err = leasing.NewManager(nil, leasing.Options{})
	require.ErrorContains(t, err, "provider <nil>: want a provider")
	require.ErrorContains(t, m.Do(t.Context(), "a", nil), "fn <nil>: want a function")
}

// narrowLimits is a provider with narrow limits.
type narrowLimits struct {
	leasing.Provider
	caps leasing.Capabilities
}

func (c narrowLimits) Capabilities() leasing.Capabilities { return c.caps }

func TestTTLIsMadeToFit(t *testing.T) {
	caps := leasing.Capabilities{Provider: "capped", MinTTL: 15 * time.Second, MaxTTL: time.Minute, Granularity: time.Second}
	for _, test := range []struct {
		options leasing.Options
		acquire leasing.AcquireOptions
		ttl     time.Duration
		cadence time.Duration
	}{
		{leasing.Options{}, leasing.AcquireOptions{}, 30 * time.Second, 18 * time.Second},
		{leasing.Options{}, leasing.AcquireOptions{TTL: 20*time.Second + 1}, 21 * time.Second, 12600 * time.Millisecond},
		{leasing.Options{RaiseToMinTTL: true}, leasing.AcquireOptions{TTL: time.Second}, 15 * time.Second, 9 * time.Second},
		{leasing.Options{RaiseToMinTTL: true, TTL: time.Second}, leasing.AcquireOptions{}, 15 * time.Second, 9 * time.Second},
		{leasing.Options{TTL: 10 * time.Minute}, leasing.AcquireOptions{}, time.Minute, 36 * time.Second},
		{leasing.Options{}, leasing.AcquireOptions{TTL: 10 * time.Minute, RenewCadence: 3 * time.Minute}, time.Minute, 36 * time.Second},
		{leasing.Options{}, leasing.AcquireOptions{TTL: 10 * time.Minute, RenewCadence: 10 * time.Second}, time.Minute, 10 * time.Second},
		{leasing.Options{RenewFraction: 0.3}, leasing.AcquireOptions{}, 30 * time.Second, 9 * time.Second},
		{leasing.Options{RenewFraction: 0.3}, leasing.AcquireOptions{RenewCadence: 5 * time.Second}, 30 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			m := leasingtest.NewManagerOn(t, narrowLimits{p, caps}, test.options)
			acquire(t, m, &test.acquire)
			time.Sleep(2 * time.Minute)
			calls := p.Calls()
			require.Equal(t, test.ttl, calls[0].TTL)
			gap := calls[1].At.Sub(calls[0].At)
			require.LessOrEqual(t, gap, test.cadence)
			require.Greater(t, gap, test.cadence*8/10)
		})
	}
}

// With adds options to those of an earlier With, and does not change the manager.
func TestWithSetsTheOptionsOfAcquires(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
		long := m.With(leasing.AcquireOptions{TTL: time.Hour, RenewFraction: 0.3, Metadata: map[string]string{"a": "1"}})
		short := long.With(leasing.AcquireOptions{TTL: time.Minute, RenewCadence: 5 * time.Second, WaitLimit: time.Second})
		require.Equal(t, time.Hour, long.AcquireOptions().TTL)
		require.Zero(t, m.AcquireOptions())
		require.Zero(t, short.AcquireOptions().RenewFraction, "a cadence replaces a fraction")
		for manager, want := range map[*leasing.Manager]time.Duration{m: 30 * time.Second, long: time.Hour, short: time.Minute} {
			for _, acquire := range []func(context.Context, string) (*leasing.Lease, error){manager.Acquire, manager.TryAcquire} {
				l, err := acquire(t.Context(), name)
				require.NoError(t, err)
				require.Equal(t, want, l.TTL())
				require.Equal(t, manager.AcquireOptions().Metadata, l.Metadata())
				require.NoError(t, l.Release(t.Context()))
			}
		}
		l := acquire(t, m, nil)
		began := time.Now()
		_, err := short.Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.GreaterOrEqual(t, time.Since(began), time.Second)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A TryAcquire whose reply was lost leaves a claim behind, which is being released. The next TryAcquire waits for the first
// attempt to release that claim.
func TestTrap_T261_ARetryOfTryAcquireIsNotInItsOwnWay(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, leasing.ErrUnavailable))
		p.Use(leasingtest.DelayReply(leasingtest.Release, 1, 5*time.Millisecond))
		p.Use(leasingtest.Delay(leasingtest.Release, 1, 5*time.Millisecond))
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		l, err := m.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))

		p.Clear()
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, leasing.ErrUnavailable))
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, leasing.ErrUnavailable))
		_, err = m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		_, err = m.TryAcquire(t.Context(), name)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.ByThisManager, "the claim that is cleaned up")
		ended, cancel := context.WithCancelCause(t.Context())
		p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, leasing.ErrUnavailable))
		_, err = m.TryAcquire(t.Context(), "another")
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		cancel(errNetwork)
		_, err = m.TryAcquire(ended, "another")
		require.ErrorIs(t, err, errNetwork)
		p.Clear()
	})
}
