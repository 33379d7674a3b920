package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

type verification struct {
	Limits
	h         *history.History
	end       time.Duration
	found     []history.Violation
	undecided []string
}

// byName returns the items of the history, grouped by name.
func (v *verification) byName() (all []*nameHistory) {
	operations, holds := grouped(v.h.Operations, func(o history.Operation) string { return o.Name }), grouped(v.h.Holds, func(t history.Hold) string { return t.Name })
	writes, waits := grouped(v.h.Writes, func(w history.Write) string { return w.Name }), grouped(v.h.Waits, func(w history.Wait) string { return w.Name })
	readings, observed := grouped(v.h.Readings, func(s history.Reading) string { return s.Name }), grouped(v.h.Observed, func(e history.Observation) string { return e.Name })
	answers := grouped(v.h.Answers, func(w history.Answer) string { return w.Name })
	for _, name := range v.h.Names() {
		// A break that found no holder is left out, except with votes: it may have ended the votes of a minority.
		seen := slices.DeleteFunc(operations[name], func(o history.Operation) bool { return o.NoHolder && !v.Votes })
		n := &nameHistory{
			verification: v, name: name, operations: seen, holds: holds[name], writes: writes[name], waits: waits[name],
			readings: readings[name], replies: answers[name], observed: observed[name], breaks: map[int64][]history.Operation{}, infinite: map[int64]bool{}, claims: map[string]*claim{},
		}
		for i := range n.operations {
			n.add(&n.operations[i])
		}
		for _, e := range n.observed {
			c := n.claim(e.Claim)
			c.observed = append(c.observed, e)
		}
		all = append(all, n)
	}
	return all
}

func grouped[T any](all []T, name func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, one := range all {
		groups[name(one)] = append(groups[name(one)], one)
	}
	return groups
}

// nameHistory is the history of one name.
type nameHistory struct {
	*verification
	check      history.Check // the current check
	name       string
	operations []history.Operation
	holds      []history.Hold
	writes     []history.Write
	waits      []history.Wait
	readings   []history.Reading
	replies    []history.Answer
	observed   []history.Observation
	// breaks are the breaks after which another claim may hold the name while the holder trusts its lease. The
	// key is the token of the lease that they hit or were meant for; 0 if it is not known.
	breaks   map[int64][]history.Operation
	infinite map[int64]bool // tokens of leases without an end
	claims   map[string]*claim
}

// violation adds a violation of the current check.
func (n *nameHistory) violation(at time.Duration, format string, args ...any) {
	n.found = append(n.found, history.Violation{Check: n.check, Name: n.name, At: at, Text: fmt.Sprintf(format, args...)})
}

// claim is the history of one claim, in order.
type claim struct {
	clientOps  []*history.Operation // sent by its manager
	backendOps []*history.Operation // received by the backend
	terms      []term
	observed   []history.Observation
}

func (n *nameHistory) claim(id string) *claim {
	if n.claims[id] == nil {
		n.claims[id] = new(claim)
	}
	return n.claims[id]
}

func (n *nameHistory) add(o *history.Operation) {
	token := cmp.Or(o.Token, o.IfToken)
	switch {
	case o.Extends() && o.TTL == leasing.Infinite:
		n.infinite[o.Token] = true
	case o.Verb == "break" && (o.Immediate || n.infinite[token]) && (o.Result == history.ResultDone || o.Result == history.ResultUnknown):
		n.breaks[token] = append(n.breaks[token], *o)
	}
	c := n.claim(o.Claim)
	if o.Layer == history.LayerBackend {
		c.backendOps = append(c.backendOps, o)
		return
	}
	c.clientOps = append(c.clientOps, o)
	if t, ok := n.Limits.granted(o); ok {
		c.terms = append(c.terms, t)
	}
}

// lost returns the time at which the holder's observer got the event of a claim's loss, or Never.
func (c *claim) lost() time.Duration {
	for _, e := range c.observed {
		if e.Own && e.Kind == leasing.EventLost {
			return e.At
		}
	}
	return history.Never
}

// shortest returns the shortest TTL that a claim was granted.
func (c *claim) shortest() time.Duration {
	ttl := leasing.Infinite
	for _, o := range c.clientOps {
		if o.Extends() {
			ttl = min(ttl, o.TTL)
		}
	}
	return ttl
}

// layers are the layers at which operations are recorded.
var layers = []history.Layer{history.LayerClient, history.LayerBackend}

// seenBy returns the operations that one layer saw. Clients do not see the breaks of
// their leases, and late copies of their acquires may be answered after the lease has
// run out. Breaks are taken from the backend, and the outcome of such a copy counts as unknown.
func seenBy(operations []history.Operation, layer history.Layer) (seen []history.Operation) {
	for _, o := range operations {
		switch {
		case o.Layer == layer, o.Verb == "break" && o.Layer == history.LayerBackend:
			seen = append(seen, o)
		case layer == history.LayerClient && o.Verb == "acquire" && o.Wait == 0 && o.Result == history.ResultDone:
			o.Result = history.ResultUnknown
			seen = append(seen, o)
		}
	}
	return seen
}

// latestEnd returns the latest end of a lease that a request has granted or renewed. Where clients watch leases,
// a lease ends only when a client checks whether it has run out, as the run does after its end.
func (v *verification) latestEnd(o *history.Operation) time.Duration {
	switch {
	case o.TTL == leasing.Infinite:
		return history.Never
	case v.Lateness.Watched:
		return history.Never - 1 // unlike an infinite lease, this lease runs out
	}
	return o.Return + o.TTL + v.Margin(o.TTL) + v.Lateness.After(o.TTL)
}

// faults returns the times of the faults that concern the name, in order.
func (n *nameHistory) faults() (at []time.Duration) {
	for _, f := range n.h.Faults {
		if f.Name == n.name || f.Name == "" {
			at = append(at, f.At)
		}
	}
	slices.Sort(at)
	return at
}
