package providertest

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var capabilityChecks = []check{
	{name: "Capabilities_AreFacts", run: func(e *env) {
		c := e.caps
		e.NotEmpty(c.Provider, "Provider")
		e.NotEmpty(c.Clock, "Clock")
		e.notNegative("MinTTL", int64(c.MinTTL))
		e.notNegative("MaxTTL", int64(c.MaxTTL))
		e.notNegative("Granularity", int64(c.Granularity))
		e.notNegative("Lateness", int64(c.Lateness.Fixed))
		e.notNegative("MaxNameBytes", int64(c.MaxNameBytes))
		e.LessOrEqual(c.MaxNameBytes, abstractions.MaxNameBytes)
		if c.MaxTTL > 0 {
			e.LessOrEqual(c.MinTTL, c.MaxTTL)
		}
		if c.Granularity > 0 {
			e.Zero(c.MinTTL%c.Granularity, "MinTTL is a multiple of Granularity")
			e.Zero(c.MaxTTL%c.Granularity, "MaxTTL is a multiple of Granularity")
		}
		e.take(e.name()).release()
		e.Equal(c, e.p.Capabilities(), "they don't change")
		e.Equal(c, e.peer.Capabilities(), "nor from client to client")
	}},
	{name: "Capabilities_RemainingIsKnown", run: func(e *env) {
		holder := e.take(e.name())
		for what, record := range map[string]abstractions.Record{"Inspect": e.inspect(holder.req.Name), "a HeldError": e.refused(holder.req.Name).Holder} {
			left, known := record.Remaining()
			e.Equal(e.caps.RemainingKnown, known, what)
			if known {
				e.Positive(left, what)
				e.LessOrEqual(left, e.long+e.caps.Lateness.After(e.long)+e.caps.Granularity+e.tolerance(e.long), what)
			}
		}
	}},
	// Another client reads what a client has written.
	{name: "Capabilities_ReadsShowTheLatestWrite", run: func(e *env) {
		if e.caps.ReadsMayLag {
			e.leaveOut("reads may lag here")
		}
		listed := func(req abstractions.ListRequest) (held []string) {
			lister, ok := abstractions.As[abstractions.Lister](e.peer)
			if !ok {
				return nil
			}
			for _, record := range e.list(lister, req) {
				if record.Held {
					held = append(held, record.Name)
				}
			}
			return held
		}
		_, lists := abstractions.As[abstractions.Lister](e.peer)
		for range 8 {
			holder := e.take(e.name())
			record, req := e.inspect(holder.req.Name), abstractions.ListRequest{Prefix: holder.req.Name, HeldOnly: true}
			e.Equal([]any{true, holder.token()}, []any{record.Held, record.Token})
			e.Equal(lists, len(listed(req)) == 1, "a name that is held is listed")
			holder.release()
			e.False(e.inspect(holder.req.Name).Held)
			e.Empty(listed(req), "a name that is free is listed as held")
		}
	}},
	{name: "Capabilities_PingAnswers", run: func(e *env) {
		if pinger, ok := abstractions.As[abstractions.Pinger](e.p); ok {
			e.NoError(e.call(pinger.Ping))
		}
	}},
	{name: "Capabilities_PingTellsAnOutage", needs: "Unreachable", run: func(e *env) {
		p := e.h.Unreachable(e.t)
		e.t.Cleanup(func() { p.Close() })
		if pinger, ok := abstractions.As[abstractions.Pinger](p); ok {
			ctx, cancel := context.WithTimeout(e.t.Context(), min(e.short, time.Second/2))
			defer cancel()
			e.unknown(pinger.Ping(ctx))
		}
	}},
	// It asks for abilities like the core. An ability that is answered is
	// usable, and the answer does not change. (The checks of each ability show
	// that the ability works.)
	{name: "Trap_T53_AbilitiesAreAnsweredOrHidden", run: func(e *env) {
		answers := func() map[string]bool {
			return map[string]bool{
				"BatchRenewer":  answered[abstractions.BatchRenewer](e),
				"Waiter":        answered[abstractions.Waiter](e),
				"WaiterLister":  answered[abstractions.WaiterLister](e),
				"Lister":        answered[abstractions.Lister](e),
				"Pinger":        answered[abstractions.Pinger](e),
				"HistoryReader": answered[abstractions.HistoryReader](e),
			}
		}
		first := answers()
		e.t.Logf("abilities: %v", first)
		e.take(e.name()).release()
		e.Equal(first, answers())
		if wrapper, ok := e.p.(interface{ As(target any) bool }); ok {
			var unknown interface{ NobodyHasThis() }
			e.False(wrapper.As(&unknown), "an ability that does not exist")
			e.Nil(unknown)
			e.False(wrapper.As(nil))
		}
	}},
	// It shows that this provider's abilities can be
	// hidden, and that a wrapper of it has all calls to itself.
	{name: "Trap_T64_NobodyLooksThroughAWrapper", run: func(e *env) {
		for _, p := range []abstractions.Provider{plain{e.p}, veiled{plain{e.p}}} {
			_, batcher := abstractions.As[abstractions.BatchRenewer](p)
			_, waiter := abstractions.As[abstractions.Waiter](p)
			_, waiterLister := abstractions.As[abstractions.WaiterLister](p)
			_, lister := abstractions.As[abstractions.Lister](p)
			_, historian := abstractions.As[abstractions.HistoryReader](p)
			e.False(batcher || waiter || waiterLister || lister || historian, "an ability of the wrapped provider shows")
		}
		_, ok := abstractions.As[abstractions.Pinger](plain{e.p})
		e.False(ok)
		pinger, ok := abstractions.As[abstractions.Pinger](veiled{plain{e.p}})
		e.True(ok)
		e.ErrorIs(pinger.Ping(e.t.Context()), abstractions.ErrDenied, "the wrapper's own answer")
	}},
}

// notNegative says that a field is 0 or more.
func (e *env) notNegative(field string, value int64) {
	e.GreaterOrEqual(value, int64(0), field)
}

func answered[T any](e *env) bool {
	ability, ok := abstractions.As[T](e.p)
	if ok {
		e.NotNil(ability, "%T is answered, and nil", &ability)
	} else {
		e.Nil(ability, "%T is hidden, and set", &ability)
	}
	return ok
}

// plain is a wrapper that does not know of abilities.
type plain struct{ abstractions.Provider }

// veiled is a wrapper that answers for nothing but Ping.
type veiled struct{ plain }

func (v veiled) Ping(context.Context) error { return abstractions.ErrDenied }

func (v veiled) As(target any) bool {
	pinger, ok := target.(*abstractions.Pinger)
	if ok {
		*pinger = v
	}
	return ok
}
