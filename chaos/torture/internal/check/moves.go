package check

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// moves returns the operations on one name that an order must or may contain.
func moves(operations []history.Operation) (all []move) {
	claims := newClaimFacts(operations)
	for _, o := range operations {
		if m, matters := claims.move(o); matters {
			all = append(all, m)
		}
	}
	return all
}

// withoutTransientRefusals drops a refusal if the claim that it names as the holder had an attempt in flight at
// the time, and that attempt was refused. With several servers that attempt may have had a
// majority, and taken its votes back. A request that was applied twice may have been granted
// first, and then refused because the lease was broken in between.
func withoutTransientRefusals(seen, operations []history.Operation) []history.Operation {
	refused := map[string][]history.Operation{} // attempts by claim
	for _, o := range operations {
		if o.Verb == "acquire" && (o.Result == history.ResultHeld || o.Result == history.ResultReleased) {
			refused[o.Claim] = append(refused[o.Claim], o)
		}
	}
	return slices.DeleteFunc(seen, func(o history.Operation) bool {
		return o.Result == history.ResultHeld && o.Holder != o.Claim && slices.ContainsFunc(refused[o.Holder], func(attempt history.Operation) bool {
			return attempt.Call <= o.Return && attempt.Return >= o.Call
		})
	})
}

// facts holds the known times of a claim. These facts keep the search short, because each
// irrelevant operation of unknown outcome doubles the number of orders.
type facts struct {
	// released is the time of the last confirmed release; -1 for never.
	released time.Duration
	// held is the time at which the claim was last seen to hold the name; -1 for never. The acquire of
	// a claim that was never seen can be left out of an order: the name is then free.
	held time.Duration
	// broken is the time of the last break that hit or may have hit its lease; -1 for never.
	broken time.Duration
	// ttl is the longest requested TTL.
	ttl time.Duration
}

// claimFacts are the facts of each claim.
type claimFacts map[string]*facts

func (all claimFacts) of(id string) *facts {
	if all[id] == nil {
		all[id] = &facts{released: -1, held: -1, broken: -1}
	}
	return all[id]
}

func newClaimFacts(operations []history.Operation) claimFacts {
	all := claimFacts{}
	for _, o := range operations {
		c := all.of(o.Claim)
		c.ttl = max(c.ttl, o.TTL)
		switch {
		case o.Result == history.ResultHeld:
			holder := all.of(o.Holder)
			holder.held = max(holder.held, o.Return)
		case o.Result == history.ResultDone && (o.Verb == "acquire" || o.Verb == "renew"):
			c.held = max(c.held, o.Return)
		case o.Result == history.ResultDone && o.Verb == "release":
			c.released = max(c.released, o.Return)
		case o.Verb == "break":
			c.broken = max(c.broken, o.Return)
		}
	}
	return all
}

// move returns the move of an operation, and whether the move matters. A move that fits any
// order does not matter.
func (all claimFacts) move(o history.Operation) (m move, matters bool) {
	m = move{Operation: o}
	switch {
	case isAmbiguous(&o):
	case o.Result == history.ResultHeld:
		return m, o.Holder != ""
	default:
		return m, o.Result == history.ResultDone || o.Result == history.ResultLost
	}
	m.Result, m.Return, m.optional = history.ResultUnknown, history.Never, true
	c := all.of(o.Claim)
	switch o.Verb {
	case "acquire":
		// After the last answer that shows the claim, a free name explains all answers.
		m.Return = c.held
		matters = c.held >= 0
	case "release":
		// After that time the lease has run out, with or without the release.
		if c.ttl != leasing.Infinite {
			m.Return = c.held + c.ttl
		}
		matters = c.held >= 0
	case "renew":
		// A renewal can only extend the lease. But an infinite lease lasts for the grace after a break.
		m.Return = c.broken
		matters = o.TTL == leasing.Infinite
	default:
		return m, true
	}
	// No answer shows the claim after its last release. (A delayed request that arrives
	// even later is refused, or is a ghost until its own release or expiry.)
	if c.released > max(o.Call, c.held) {
		m.Return = min(m.Return, c.released)
	}
	return m, matters && m.Return >= m.Call
}

// isAmbiguous reports whether an operation's effect is unknown. A claim whose acquire was refused as
// released may still hold the name while its lease runs out: the request was applied twice, and the
// lease was broken in between.
func isAmbiguous(o *history.Operation) bool {
	return o.Result == history.ResultUnknown || o.Result == history.ResultReleased && o.Verb == "acquire" && o.Layer == history.LayerClient
}
