package providertest

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var capabilityChecks = []suite.Check{
	{Name: "Capabilities_AreFacts", Run: func(e *suite.Env) {
		c := e.Caps
		e.NotEmpty(c.Provider, "Provider")
		e.NotEmpty(c.Clock, "Clock")
		checkNotNegative(e, "MinTTL", int64(c.MinTTL))
		checkNotNegative(e, "MaxTTL", int64(c.MaxTTL))
		checkNotNegative(e, "Granularity", int64(c.Granularity))
		checkNotNegative(e, "Lateness", int64(c.Lateness.Fixed))
		checkNotNegative(e, "MaxNameBytes", int64(c.MaxNameBytes))
		e.LessOrEqual(c.MaxNameBytes, abstractions.MaxNameBytes)
		if c.MaxTTL > 0 {
			e.LessOrEqual(c.MinTTL, c.MaxTTL)
		}
		if c.Granularity > 0 {
			e.Zero(c.MinTTL%c.Granularity, "MinTTL is a multiple of Granularity")
			e.Zero(c.MaxTTL%c.Granularity, "MaxTTL is a multiple of Granularity")
		}
		e.Take(e.Name()).Release()
		e.Equal(c, e.P.Capabilities(), "they don't change")
		e.Equal(c, e.Peer.Capabilities(), "nor from client to client")
	}},
	{Name: "Capabilities_RemainingIsKnown", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		for what, record := range map[string]abstractions.Record{"Inspect": e.Inspect(holder.Req.Name), "a HeldError": e.IsRefused(holder.Req.Name).Holder} {
			left, known := record.Remaining()
			e.Equal(e.Caps.RemainingKnown, known, what)
			if known {
				e.Positive(left, what)
				e.LessOrEqual(left, e.Long+e.Caps.Lateness.After(e.Long)+e.Caps.Granularity+e.Tolerance(e.Long), what)
			}
		}
	}},
	// The check tests that one client reads the latest writes of another.
	{Name: "Capabilities_ReadsShowTheLatestWrite", Run: func(e *suite.Env) {
		if e.Caps.ReadsMayLag {
			e.LeaveOut("reads may lag here")
		}
		listed := func(req abstractions.ListRequest) (held []string) {
			lister, ok := abstractions.As[abstractions.Lister](e.Peer)
			if !ok {
				return nil
			}
			for _, record := range e.List(lister, req) {
				if record.Held {
					held = append(held, record.Name)
				}
			}
			return held
		}
		_, lists := abstractions.As[abstractions.Lister](e.Peer)
		for range 8 {
			holder := e.Take(e.Name())
			record, req := e.Inspect(holder.Req.Name), abstractions.ListRequest{Prefix: holder.Req.Name, HeldOnly: true}
			e.Equal([]any{true, holder.Token()}, []any{record.Held, record.Token})
			e.Equal(lists, len(listed(req)) == 1, "a name that is held is listed")
			holder.Release()
			e.False(e.Inspect(holder.Req.Name).Held)
			e.Empty(listed(req), "a name that is free is listed as held")
		}
	}},
	{Name: "Capabilities_PingAnswers", Run: func(e *suite.Env) {
		if pinger, ok := abstractions.As[abstractions.Pinger](e.P); ok {
			e.NoError(e.Call(pinger.Ping))
		}
	}},
	{Name: "Capabilities_PingReportsAnOutage", Needs: "Unreachable", Run: func(e *suite.Env) {
		p := e.Unreachable(e.T)
		e.T.Cleanup(func() { p.Close() })
		if pinger, ok := abstractions.As[abstractions.Pinger](p); ok {
			ctx, cancel := context.WithTimeout(e.T.Context(), min(e.Short, time.Second/2))
			defer cancel()
			e.Unknown(pinger.Ping(ctx))
		}
	}},
	// The check looks for abilities in the same way as package leasing. An
	// ability that As returns must not be nil, and the results of As must not
	// change. (The checks of each ability test that the ability works.)
	{Name: "Trap_T53_AbilitiesAreAnsweredOrHidden", Run: func(e *suite.Env) {
		answers := func() map[string]bool {
			return map[string]bool{
				"BatchRenewer":  checkAbility[abstractions.BatchRenewer](e),
				"Waiter":        checkAbility[abstractions.Waiter](e),
				"WaiterLister":  checkAbility[abstractions.WaiterLister](e),
				"Lister":        checkAbility[abstractions.Lister](e),
				"Pinger":        checkAbility[abstractions.Pinger](e),
				"HistoryReader": checkAbility[abstractions.HistoryReader](e),
			}
		}
		first := answers()
		e.T.Logf("abilities: %v", first)
		e.Take(e.Name()).Release()
		e.Equal(first, answers())
		if wrapper, ok := e.P.(interface{ As(target any) bool }); ok {
			var unknown interface{ NobodyHasThis() }
			e.False(wrapper.As(&unknown), "an ability that does not exist")
			e.Nil(unknown)
			e.False(wrapper.As(nil))
		}
	}},
	// The check tests that a wrapper can hide this provider's abilities, and
	// gets all calls itself.
	{Name: "Trap_T64_NobodyLooksThroughAWrapper", Run: func(e *suite.Env) {
		for _, p := range []abstractions.Provider{withoutAbilities{e.P}, pingOnly{withoutAbilities{e.P}}} {
			_, batcher := abstractions.As[abstractions.BatchRenewer](p)
			_, waiter := abstractions.As[abstractions.Waiter](p)
			_, waiterLister := abstractions.As[abstractions.WaiterLister](p)
			_, lister := abstractions.As[abstractions.Lister](p)
			_, historian := abstractions.As[abstractions.HistoryReader](p)
			e.False(batcher || waiter || waiterLister || lister || historian, "an ability of the wrapped provider shows")
		}
		_, ok := abstractions.As[abstractions.Pinger](withoutAbilities{e.P})
		e.False(ok)
		pinger, ok := abstractions.As[abstractions.Pinger](pingOnly{withoutAbilities{e.P}})
		e.True(ok)
		e.ErrorIs(pinger.Ping(e.T.Context()), abstractions.ErrDenied, "the wrapper's own answer")
	}},
}

// checkNotNegative requires that a field is 0 or more.
func checkNotNegative(e *suite.Env, field string, value int64) {
	e.GreaterOrEqual(value, int64(0), field)
}

func checkAbility[T any](e *suite.Env) bool {
	ability, ok := abstractions.As[T](e.P)
	if ok {
		e.NotNil(ability, "%T is answered, and nil", &ability)
	} else {
		e.Nil(ability, "%T is hidden, and set", &ability)
	}
	return ok
}

// withoutAbilities is a wrapper without abilities.
type withoutAbilities struct{ abstractions.Provider }

// pingOnly is a wrapper whose only ability is Ping.
type pingOnly struct{ withoutAbilities }

func (v pingOnly) Ping(context.Context) error { return abstractions.ErrDenied }

func (v pingOnly) As(target any) bool {
	pinger, ok := target.(*abstractions.Pinger)
	if ok {
		*pinger = v
	}
	return ok
}
