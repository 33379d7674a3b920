package torture

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// never is the return of an operation that may take effect at any later time.
const never = math.MaxInt64

// moves are the operations on one name that an order has to have, or may have.
func moves(operations []operation) (all []move) {
	claims := newKnown(operations)
	for _, o := range operations {
		if m, matters := claims.move(o); matters {
			all = append(all, m)
		}
	}
	return all
}

// settled leaves out the refusals that name a claim as the holder whose own attempt
// was under way at the time, and was refused. A backend of several nodes may have had
// the votes of most, and taken them back. A request that was applied twice may have been
// granted first, and refused since the lease was broken in between.
func settled(seen, operations []operation) []operation {
	refused := map[string][]operation{} // attempts by claim
	for _, o := range operations {
		if o.Verb == "acquire" && (o.Result == resultHeld || o.Result == resultReleased) {
			refused[o.Claim] = append(refused[o.Claim], o)
		}
	}
	return slices.DeleteFunc(seen, func(o operation) bool {
		return o.Result == resultHeld && o.Holder != o.Claim && slices.ContainsFunc(refused[o.Holder], func(attempt operation) bool {
			return attempt.Call <= o.Return && attempt.Return >= o.Call
		})
	})
}

// facts are what is known of a claim beside the operation that is looked at. They
// keep the search short: each operation of unknown outcome that can't matter, and
// that is left in, doubles the number of orders.
type facts struct {
	// released is when it was last known to be; -1 for never.
	released time.Duration
	// held is when it was last seen to hold the name; -1 for never. The acquire of one
	// that nobody saw explains nothing: without it the name is free instead.
	held time.Duration
	// broken is when its lease was last broken, or may have been; -1 for never.
	broken time.Duration
	// ttl is the longest that was asked for.
	ttl time.Duration
}

// known are the facts of each claim.
type known map[string]*facts

func (all known) of(id string) *facts {
	if all[id] == nil {
		all[id] = &facts{released: -1, held: -1, broken: -1}
	}
	return all[id]
}

func newKnown(operations []operation) known {
	all := known{}
	for _, o := range operations {
		c := all.of(o.Claim)
		c.ttl = max(c.ttl, o.TTL)
		switch {
		case o.Result == resultHeld:
			holder := all.of(o.Holder)
			holder.held = max(holder.held, o.Return)
		case o.Result == resultDone && (o.Verb == "acquire" || o.Verb == "renew"):
			c.held = max(c.held, o.Return)
		case o.Result == resultDone && o.Verb == "release":
			c.released = max(c.released, o.Return)
		case o.Verb == "break":
			c.broken = max(c.broken, o.Return)
		}
	}
	return all
}

// move is an operation as the search takes it, and whether it matters: what fits
// any order does not.
func (all known) move(o operation) (m move, matters bool) {
	m = move{operation: o}
	switch {
	case o.inDoubt():
	case o.Result == resultHeld:
		return m, o.Holder != ""
	default:
		return m, o.Result == resultDone || o.Result == resultLost
	}
	m.Result, m.Return, m.optional = resultUnknown, never, true
	c := all.of(o.Claim)
	switch o.Verb {
	case "acquire":
		// Once nobody sees the claim any more, a free name explains all that follows.
		m.Return = c.held
		matters = c.held >= 0
	case "release":
		// Its lease has run out by then, whatever became of the release.
		if c.ttl != leasing.Infinite {
			m.Return = c.held + c.ttl
		}
		matters = c.held >= 0
	case "renew":
		// It can only make the lease last longer: but that which has no end then lasts for the grace, once it is broken.
		m.Return = c.broken
		matters = o.TTL == leasing.Infinite
	default:
		return m, true
	}
	// Nobody has seen the claim again since its last release. (A delayed request that comes
	// later still is refused, or is a ghost until its own release or expiry.)
	if c.released > max(o.Call, c.held) {
		m.Return = min(m.Return, c.released)
	}
	return m, matters && m.Return >= m.Call
}

// inDoubt says that nobody knows whether an operation has taken effect. A claim of which a
// manager hears that it was given up may have the name all the same, while it runs out: the
// request was applied twice, and the lease broken in between.
func (o *operation) inDoubt() bool {
	return o.Result == resultUnknown || o.Result == resultReleased && o.Verb == "acquire" && o.Layer == layerClient
}

func (o operation) String() string {
	text := fmt.Sprintf("%s of claim %s by worker %d (%s to %s): %s", o.Verb, o.Claim, o.Worker, seconds(o.Call), seconds(o.Return), o.Result)
	if o.Token > 0 {
		text += fmt.Sprintf(", token %d", o.Token)
	}
	if o.Holder != "" {
		text += " by claim " + o.Holder
	}
	return text
}
