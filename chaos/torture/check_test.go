package torture_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture"
)

const (
	ms  = time.Millisecond
	ttl = 1000 * ms
)

var terms = torture.Terms{Drift: 10 * ms, Patience: 500 * ms, Effort: 100_000}

// checks are those that a history violates.
func checks(h torture.History, terms torture.Terms) (all []torture.Check) {
	found, _ := torture.Verify(&h, terms)
	for _, v := range found {
		all = append(all, v.Check)
	}
	return all
}

// op is an operation as a client saw it.
func op(verb, claim string, call, ret time.Duration, result torture.Result, token int64) torture.Operation {
	return torture.Operation{Layer: torture.Client, Verb: verb, Name: "n", Claim: claim, TTL: ttl, Call: call, Return: ret, Result: result, Token: token}
}

func heldBy(holder, claim string, call, ret time.Duration) torture.Operation {
	o := op("acquire", claim, call, ret, torture.Held, 0)
	o.Holder = holder
	return o
}

// brokenAt is a break that the faults made, below the clients.
func brokenAt(immediate bool, call, ret time.Duration) torture.Operation {
	o := op("break", "", call, ret, torture.Done, 0)
	o.Layer, o.Immediate = torture.Backend, immediate
	return o
}

// unheard is an operation whose outcome nobody was told.
func unheard(o torture.Operation) torture.Operation {
	o.Result = torture.Unknown
	return o
}

// refused is an operation that was not applied.
func refused(o torture.Operation) torture.Operation {
	o.Result = torture.Refused
	return o
}

// below is an operation as the backend saw it.
func below(o torture.Operation) torture.Operation {
	o.Layer = torture.Backend
	return o
}

func TestOrder(t *testing.T) {
	const (
		done, lost, unknown = torture.Done, torture.Lost, torture.Unknown
		yes, no             = true, false
	)
	for name, c := range map[string]struct {
		ok         bool
		operations []torture.Operation
	}{
		"one after the other": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"at once": {yes, []torture.Operation{
			op("release", "a", 20*ms, 60*ms, done, 0), op("acquire", "b", 20*ms, 50*ms, done, 2), op("acquire", "a", 0, 10*ms, done, 1),
		}},
		"two holders": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"after expiry": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 1000*ms, done, 2),
		}},
		"before expiry, but for the drift": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2),
		}},
		"before expiry": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 989*ms, done, 2),
		}},
		"before the expiry of a renewal": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 500*ms, 510*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2),
		}},
		"a renewal revives beside a new holder": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2), op("renew", "a", 1300*ms, 1310*ms, done, 1),
		}},
		// The first release, and the one of the ghost, take effect with their replies lost.
		"a ghost is released as its claim was": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, unknown, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), op("release", "a", 160*ms, 170*ms, done, 0),
			heldBy("a", "c", 300*ms, 310*ms), op("release", "a", 400*ms, 410*ms, unknown, 0), op("acquire", "c", 420*ms, 430*ms, done, 4),
			op("release", "a", 500*ms, 510*ms, done, 0),
		}},
		"a ghost that nobody released": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, unknown, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), op("release", "a", 160*ms, 170*ms, done, 0),
			heldBy("a", "c", 300*ms, 310*ms), op("acquire", "c", 420*ms, 430*ms, done, 4), op("release", "a", 500*ms, 510*ms, done, 0),
		}},
		"the lease before the ghost is lost": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0), op("release", "b", 120*ms, 130*ms, done, 0),
			op("acquire", "a", 200*ms, 210*ms, done, 2), op("renew", "a", 220*ms, 230*ms, lost, 1), heldBy("a", "b", 300*ms, 310*ms),
		}},
		"the lease before the ghost is renewed": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0), op("release", "b", 120*ms, 130*ms, done, 0),
			op("acquire", "a", 200*ms, 210*ms, done, 2), op("renew", "a", 220*ms, 230*ms, done, 1),
		}},
		"a claim that waits takes the name three times": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 500*ms, 510*ms, unknown, 0), op("acquire", "a", 900*ms, 910*ms, unknown, 0),
			op("acquire", "a", 3900*ms, 3910*ms, unknown, 0),
			heldBy("a", "b", 600*ms, 610*ms), op("acquire", "b", 1200*ms, 1210*ms, done, 2), op("release", "b", 1220*ms, 1230*ms, done, 0),
			heldBy("a", "c", 1300*ms, 1310*ms), op("acquire", "c", 2400*ms, 2410*ms, done, 4), op("release", "c", 2420*ms, 2430*ms, done, 0),
			heldBy("a", "b", 2500*ms, 2510*ms),
		}},
		"a late attempt comes after the release": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), heldBy("a", "c", 300*ms, 310*ms),
		}},
		"a claim that waits takes the name again, but for the drift": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 100*ms, 110*ms, unknown, 0), heldBy("a", "c", 40*ms, 50*ms),
			op("acquire", "b", 985*ms, 991*ms, done, 2), op("release", "b", 992*ms, 993*ms, done, 0), heldBy("a", "c", 994*ms, 996*ms),
		}},
		"a claim that waits, in any order": {yes, []torture.Operation{
			heldBy("a", "c", 1400*ms, 1500*ms), op("acquire", "a", 900*ms, 910*ms, unknown, 0), op("acquire", "a", 0, 10*ms, unknown, 0),
			heldBy("a", "c", 590*ms, 600*ms), op("release", "b", 1010*ms, 1020*ms, done, 0), op("acquire", "b", 990*ms, 1000*ms, done, 2),
		}},
		"three late attempts come after three releases": {yes, []torture.Operation{
			op("acquire", "a", 0, 5*ms, unknown, 0), op("acquire", "a", 6*ms, 9*ms, unknown, 0), op("acquire", "a", 10*ms, 15*ms, unknown, 0),
			op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0),
			heldBy("a", "c", 200*ms, 210*ms), op("release", "a", 220*ms, 230*ms, done, 0), heldBy("a", "c", 240*ms, 250*ms),
			op("release", "a", 260*ms, 270*ms, done, 0), heldBy("a", "c", 280*ms, 290*ms),
		}},
		"a retry tells the token, near the end": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms), op("acquire", "a", 900*ms, 1000*ms, done, 1), op("acquire", "b", 1890*ms, 1900*ms, done, 2),
		}},
		"held by one who came early, but for the drift": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2), heldBy("b", "c", 980*ms, 990*ms),
		}},
		"held by one who came too early": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2), heldBy("b", "c", 980*ms, 989*ms),
		}},
		"an attempt of before the loss has no effect": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 1010*ms, 1020*ms, done, 2), op("acquire", "a", 1100*ms, 1110*ms, unknown, 0),
			op("release", "a", 1200*ms, 1210*ms, done, 0), op("renew", "b", 1300*ms, 1310*ms, done, 2),
		}},
		"a token that falls": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, done, 4),
		}},
		"a token that falls after one that nobody heard of": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 60*ms, 70*ms), op("acquire", "c", 1100*ms, 1110*ms, done, 4),
		}},
		"a retry tells a token that falls": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 60*ms, 70*ms), op("acquire", "b", 80*ms, 90*ms, done, 4),
		}},
		"before the expiry of a repetition": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 500*ms, 510*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2),
		}},
		"taken before the loss": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 900*ms, 1000*ms, lost, 1), op("acquire", "b", 905*ms, 985*ms, done, 2),
		}},
		"the one after a broken one renews": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "b", 1000*ms, 1010*ms, done, 2), op("renew", "b", 1020*ms, 1030*ms, done, 2),
		}},
		"an attempt without a TTL": {yes, []torture.Operation{
			{Layer: torture.Client, Verb: "acquire", Name: "n", Claim: "a", Call: 0, Return: 10 * ms, Result: unknown}, heldBy("a", "b", 0, 10*ms),
		}},
		"held by one who is refused": {yes, []torture.Operation{
			heldBy("", "a", 0, 20*ms), heldBy("a", "b", 10*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by one who has been refused": {no, []torture.Operation{
			heldBy("", "a", 0, 20*ms), heldBy("a", "b", 21*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by one who will be refused": {no, []torture.Operation{
			heldBy("a", "b", 10*ms, 20*ms), heldBy("", "a", 21*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by one who did not hear of its refusal": {yes, []torture.Operation{
			op("acquire", "a", 0, 25*ms, unknown, 0), below(heldBy("", "a", 0, 20*ms)), heldBy("a", "b", 10*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"a retry is blocked by its first attempt": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "a", 20*ms, 30*ms),
		}},
		"a renewal revives where nobody has been": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1300*ms, 1310*ms, done, 1),
		}},
		"a renewal after the release": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), op("renew", "a", 40*ms, 50*ms, done, 1),
		}},
		"a renewal changes the token": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 40*ms, 50*ms, done, 2),
		}},
		"a false loss": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 500*ms, 510*ms, lost, 1),
		}},
		"a true loss": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1),
		}},
		"lost, and renewed all the same": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1), op("renew", "a", 1020*ms, 1030*ms, done, 1),
		}},
		"held by the holder": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), heldBy("a", "b", 20*ms, 30*ms),
		}},
		"held by one who was released": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), heldBy("a", "b", 40*ms, 50*ms),
		}},
		"the same claim twice": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 20*ms, 30*ms, done, 1),
		}},
		"the same claim twice with two tokens": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 20*ms, 30*ms, done, 2),
		}},
		"the same claim again after its expiry": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 1020*ms, 1030*ms, done, 2),
		}},
		"an acquire of unknown outcome was applied": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms), op("acquire", "c", 1000*ms, 1050*ms, done, 2),
		}},
		"an acquire of unknown outcome was not applied": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "c", 20*ms, 50*ms, done, 2),
		}},
		"an acquire of unknown outcome was applied late": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "b", 20*ms, 50*ms, done, 2), op("release", "b", 60*ms, 70*ms, done, 0),
			heldBy("a", "c", 80*ms, 90*ms), op("acquire", "c", 1040*ms, 1100*ms, done, 3),
		}},
		"an acquire of unknown outcome takes a name that is held": {no, []torture.Operation{
			op("acquire", "b", 0, 10*ms, done, 2), op("acquire", "a", 20*ms, 30*ms, unknown, 0), heldBy("a", "c", 80*ms, 90*ms),
		}},
		"a release of unknown outcome was applied": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, unknown, 0), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"a release of unknown outcome was not applied": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms),
		}},
		"broken at once": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(true, 20*ms, 30*ms), op("acquire", "b", 40*ms, 50*ms, done, 2), op("renew", "a", 60*ms, 70*ms, lost, 1),
		}},
		"broken to run out": {yes, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("renew", "a", 60*ms, 70*ms, lost, 1), op("acquire", "b", 1000*ms, 1010*ms, done, 2),
		}},
		"broken to run out, and taken at once": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"broken to run out, and acquired again": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "a", 40*ms, 50*ms, done, 1),
		}},
		"broken to run out, and renewed": {no, []torture.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("renew", "a", 40*ms, 50*ms, done, 1),
		}},
	} {
		h := torture.History{TTL: ttl, Operations: c.operations}
		if c.ok {
			require.Empty(t, checks(h, terms), name)
		} else {
			require.Contains(t, checks(h, terms), torture.Linearizable, name)
		}
		loose := terms
		loose.AssumptionsBroken = true
		require.NotContains(t, checks(h, loose), torture.Linearizable, name)
		for i, o := range h.Operations {
			h.Operations[i] = below(o)
		}
		if c.ok {
			require.Empty(t, checks(h, terms), "%s, as the backend saw it", name)
		} else {
			require.Contains(t, checks(h, terms), torture.Linearizable, "%s, as the backend saw it", name)
		}
	}
}

// What is said of a history without an order is where the longest one ends.
func TestOrderThatEndsSaysWhatDoesNotFit(t *testing.T) {
	h := torture.History{Operations: []torture.Operation{
		op("acquire", "a", 0, 10*ms, torture.Done, 1), op("release", "a", 20*ms, 30*ms, torture.Done, 0), op("acquire", "b", 40*ms, 50*ms, torture.Done, 2),
		op("acquire", "c", 60*ms, 70*ms, torture.Done, 3), op("release", "c", 80*ms, 90*ms, torture.Done, 0), heldBy("d", "e", 100*ms, 110*ms),
	}}
	found, _ := torture.Verify(&h, terms)
	require.Len(t, found, 1)
	require.Equal(t, 70*ms, found[0].At)
	require.Equal(t, "linearizable: n at 0.070s: no order explains what the client saw: acquire of claim c by worker 0 (0.060s to 0.070s): done, token 3 "+
		"does not fit where claim b holds the name with token 2 until 1.030s at least", found[0].String())
}

func TestGhost(t *testing.T) {
	grant, release := op("acquire", "a", 0, 10*ms, torture.Done, 1), op("release", "a", 20*ms, 30*ms, torture.Done, 0)
	ghost := op("acquire", "a", 80*ms, 90*ms, torture.Done, 2)
	for name, c := range map[string]struct {
		ok         bool
		operations []torture.Operation
	}{
		"nobody has come since":                  {operations: []torture.Operation{grant, release, ghost}},
		"it is released again":                   {operations: []torture.Operation{grant, release, ghost, op("release", "a", 100*ms, 110*ms, torture.Done, 0)}},
		"it never held the name":                 {operations: []torture.Operation{release, ghost}},
		"released twice":                         {operations: []torture.Operation{grant, release, op("release", "a", 40*ms, 50*ms, torture.Unknown, 0), ghost}},
		"another came and has not been given up": {operations: []torture.Operation{release, op("acquire", "b", 40*ms, 50*ms, torture.Refused, 0), ghost}},
		"another was given up before":            {operations: []torture.Operation{op("release", "b", 10*ms, 19*ms, torture.Done, 0), release, ghost}},
		"the backend granted it":                 {operations: []torture.Operation{below(grant), below(release), below(ghost)}},
		"another was given up between two":       {operations: []torture.Operation{release, op("release", "b", 40*ms, 50*ms, torture.Done, 0), op("release", "a", 60*ms, 70*ms, torture.Done, 0), ghost}},
		"another was given up after it":          {operations: []torture.Operation{release, ghost, op("release", "b", 91*ms, 95*ms, torture.Done, 0)}},
		"another was given up in that instant":   {ok: true, operations: []torture.Operation{op("release", "b", 10*ms, 20*ms, torture.Done, 0), release, ghost}},
		"another is given up meanwhile":          {ok: true, operations: []torture.Operation{release, op("release", "b", 85*ms, 95*ms, torture.Done, 0), ghost}},
		"granted in the instant of the release":  {ok: true, operations: []torture.Operation{release, op("acquire", "a", 30*ms, 90*ms, torture.Done, 2)}},
		"another has been given up since":        {ok: true, operations: []torture.Operation{release, op("release", "b", 40*ms, 50*ms, torture.Done, 0), ghost}},
		"another may have been at the same time": {ok: true, operations: []torture.Operation{op("release", "b", 10*ms, 25*ms, torture.Done, 0), release, ghost}},
		"another may have been, late":            {ok: true, operations: []torture.Operation{op("release", "b", 0, 10*ms, torture.Unknown, 0), release, ghost}},
		"somebody's lease has been broken since": {ok: true, operations: []torture.Operation{release, brokenAt(true, 40*ms, 50*ms), ghost}},
		"it may have been granted before":        {ok: true, operations: []torture.Operation{release, op("acquire", "a", 25*ms, 90*ms, torture.Done, 2)}},
		"it may not have been released":          {ok: true, operations: []torture.Operation{op("release", "a", 20*ms, 30*ms, torture.Unknown, 0), ghost}},
		"another's claim":                        {ok: true, operations: []torture.Operation{release, op("acquire", "b", 80*ms, 90*ms, torture.Done, 2)}},
		"refused, as it must be":                 {ok: true, operations: []torture.Operation{release, op("acquire", "a", 80*ms, 90*ms, torture.Released, 0)}},
	} {
		h := torture.History{TTL: ttl, Operations: c.operations}
		if c.ok {
			require.NotContains(t, checks(h, terms), torture.Ghost, name)
		} else {
			require.Contains(t, checks(h, terms), torture.Ghost, name)
		}
		loose := terms
		loose.AssumptionsBroken = true
		require.NotContains(t, checks(h, loose), torture.Ghost, name)
	}
}

func TestGrantOfSomethingElse(t *testing.T) {
	grant := op("acquire", "a", 0, 10*ms, torture.Done, 1)
	require.Empty(t, checks(torture.History{Operations: []torture.Operation{grant}}, terms))
	grant.Stray = "n, claim b"
	require.Equal(t, []torture.Check{torture.Answer}, checks(torture.History{Operations: []torture.Operation{grant}}, terms))
}

func TestRefusedAsGivenUp(t *testing.T) {
	grant, refused := op("acquire", "a", 0, 10*ms, torture.Done, 1), op("renew", "a", 50*ms, 60*ms, torture.Released, 1)
	for name, c := range map[string]struct {
		ok         bool
		operations []torture.Operation
	}{
		"by nobody":                 {operations: []torture.Operation{grant, refused}},
		"later":                     {operations: []torture.Operation{grant, refused, op("release", "a", 70*ms, 80*ms, torture.Done, 0)}},
		"another":                   {operations: []torture.Operation{grant, op("release", "b", 20*ms, 30*ms, torture.Done, 0), refused}},
		"before":                    {ok: true, operations: []torture.Operation{grant, op("release", "a", 20*ms, 30*ms, torture.Done, 0), refused}},
		"maybe, and maybe only now": {ok: true, operations: []torture.Operation{grant, op("release", "a", 55*ms, 0, torture.Unknown, 0), refused}},
		"broken":                    {ok: true, operations: []torture.Operation{grant, brokenAt(false, 20*ms, 30*ms), refused}},
	} {
		h := torture.History{TTL: ttl, Operations: c.operations}
		if c.ok {
			require.NotContains(t, checks(h, terms), torture.Refusal, name)
		} else {
			require.Contains(t, checks(h, terms), torture.Refusal, name)
		}
	}
}

func TestRefusedBecauseOfALeaseThatHasRunOut(t *testing.T) {
	layer := func(l torture.Layer, operations ...torture.Operation) torture.History {
		for i := range operations {
			operations[i].Layer = l
		}
		return torture.History{TTL: ttl, Operations: operations}
	}
	grant, renewed := op("acquire", "a", 0, 10*ms, torture.Done, 1), op("renew", "a", 500*ms, 510*ms, torture.Done, 1)
	late := heldBy("a", "b", 1200*ms, 1210*ms)
	precise := terms
	precise.Precision = 100 * ms
	require.Contains(t, checks(layer(torture.Backend, grant, late), precise), torture.Leak)
	require.NotContains(t, checks(layer(torture.Backend, grant, heldBy("a", "b", 1105*ms, 1300*ms)), precise), torture.Leak, "asked in time")
	require.NotContains(t, checks(layer(torture.Client, grant, late), precise), torture.Leak, "the answer may have been on its way for long")
	require.NotContains(t, checks(layer(torture.Backend, grant, renewed, late), precise), torture.Leak, "renewed")
	lost := op("renew", "a", 500*ms, 510*ms, torture.Unknown, 1)
	require.NotContains(t, checks(layer(torture.Backend, grant, lost, late), precise), torture.Leak, "maybe renewed")
	forever := op("renew", "a", 500*ms, 510*ms, torture.Done, 1)
	forever.TTL = leasing.Infinite
	require.NotContains(t, checks(layer(torture.Backend, grant, forever, late), precise), torture.Leak, "infinite")
}

func TestSearchThatIsTooLongIsUndecided(t *testing.T) {
	h := torture.History{Operations: []torture.Operation{op("acquire", "a", 0, 10*ms, torture.Done, 1), op("acquire", "b", 40*ms, 50*ms, torture.Done, 2)}}
	short := terms
	short.Effort = 1
	found, undecided := torture.Verify(&h, short)
	require.Empty(t, found)
	require.Equal(t, []string{"n (client)"}, undecided)
}

func tenure(claim string, from, until, end time.Duration, ending torture.Ending) torture.Tenure {
	return torture.Tenure{Name: "n", Claim: claim, From: from, Until: until, End: end, Ending: ending}
}

func TestOverlap(t *testing.T) {
	const up = torture.GivenUp
	for name, c := range map[string]struct {
		ok      bool
		tenures []torture.Tenure
		breaks  []torture.Operation
	}{
		"one after the other": {ok: true, tenures: []torture.Tenure{tenure("a", 0, 900*ms, 100*ms, up), tenure("b", 100*ms, 900*ms, 500*ms, up)}},
		"both at once":        {tenures: []torture.Tenure{tenure("a", 0, 900*ms, 101*ms, up), tenure("b", 100*ms, 900*ms, 500*ms, up)}},
		"out of trust":        {ok: true, tenures: []torture.Tenure{tenure("a", 0, 900*ms, 2000*ms, up), tenure("b", 900*ms, 1900*ms, 1000*ms, up)}},
		"never ended":         {tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, ""), tenure("b", 899*ms, 1900*ms, 1000*ms, up)}},
		"behind a short one": {tenures: []torture.Tenure{
			tenure("a", 0, 900*ms, 800*ms, up), tenure("b", 100*ms, 200*ms, 200*ms, up), tenure("c", 300*ms, 400*ms, 400*ms, up),
		}},
		"broken at once": {
			ok:      true,
			tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken to run out": {
			tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{brokenAt(false, 400*ms, 450*ms)},
		},
		"taken before the break": {
			tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, ""), tenure("b", 300*ms, 900*ms, 380*ms, up)},
			breaks:  []torture.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken by who never heard of it": {
			ok:      true,
			tenures: []torture.Tenure{tenure("a", 100*ms, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{unheard(brokenAt(true, 400*ms, 0))},
		},
		"a break that was refused": {
			tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{refused(brokenAt(true, 400*ms, 450*ms))},
		},
		"broken in the instant of its grant": {
			ok:      true,
			tenures: []torture.Tenure{tenure("a", 300*ms, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{brokenAt(true, 200*ms, 300*ms)},
		},
		"an earlier one was broken": {
			tenures: []torture.Tenure{tenure("a", 300*ms, 900*ms, 0, ""), tenure("b", 500*ms, 900*ms, 600*ms, up)},
			breaks:  []torture.Operation{brokenAt(true, 100*ms, 200*ms)},
		},
	} {
		h := torture.History{TTL: ttl, Tenures: c.tenures, Operations: c.breaks}
		if c.ok {
			require.NotContains(t, checks(h, terms), torture.Overlap, name)
		} else {
			require.Contains(t, checks(h, terms), torture.Overlap, name)
		}
	}
}

func TestTokens(t *testing.T) {
	loose := terms
	loose.AssumptionsBroken = true // tokens have to rise then, too
	grants := func(second, third int64) torture.History {
		return torture.History{Operations: []torture.Operation{
			op("acquire", "a", 0, 10*ms, torture.Done, 5), op("acquire", "b", 20*ms, 30*ms, torture.Done, second), op("acquire", "c", 25*ms, 40*ms, torture.Done, third),
		}}
	}
	require.Empty(t, checks(grants(6, 7), loose))
	require.Empty(t, checks(grants(7, 6), loose), "those two were under way at once")
	require.Equal(t, []torture.Check{torture.Tokens}, checks(grants(4, 6), loose), "reset")
	require.Contains(t, checks(grants(5, 6), loose), torture.Tokens, "the same again")
	require.Equal(t, []torture.Check{torture.Tokens}, checks(grants(6, 6), loose), "one for two")

	instant := torture.History{Operations: []torture.Operation{op("acquire", "a", 0, 10*ms, torture.Done, 5), op("acquire", "b", 10*ms, 30*ms, torture.Done, 4)}}
	require.Empty(t, checks(instant, loose), "the first may have returned after the second began")
	reset := grants(4, 6)
	for i, o := range reset.Operations {
		reset.Operations[i] = below(o)
	}
	require.Equal(t, []torture.Check{torture.Tokens}, checks(reset, loose), "what nobody heard of counts, too")
	reset.Operations = append(reset.Operations, grants(4, 6).Operations...)
	require.Equal(t, []torture.Check{torture.Tokens}, checks(reset, loose), "seen twice, told once")
}

func TestFence(t *testing.T) {
	write := func(claim string, token int64, at time.Duration, accepted, trusted bool) torture.Write {
		return torture.Write{Name: "n", Claim: claim, Token: token, Call: at, Return: at, Accepted: accepted, Trusted: trusted}
	}
	ok := torture.History{Writes: []torture.Write{
		write("a", 1, 10*ms, true, true), write("a", 1, 20*ms, true, false), write("b", 2, 30*ms, true, true), write("a", 1, 40*ms, false, false),
	}}
	require.Empty(t, checks(ok, terms))
	for name, w := range map[string]torture.Write{
		"stale":             write("a", 1, 50*ms, true, false),
		"the same token":    write("c", 2, 50*ms, true, true),
		"a holder in trust": write("c", 1, 50*ms, false, true),
	} {
		bad := torture.History{Writes: append(ok.Writes[:4:4], w)}
		require.Equal(t, []torture.Check{torture.Fence}, checks(bad, terms), name)
	}
	refused := torture.History{
		Writes:     append(ok.Writes[:4:4], write("c", 1, 50*ms, false, true)),
		Operations: []torture.Operation{brokenAt(true, 15*ms, 20*ms)},
	}
	require.Empty(t, checks(refused, terms), "broken under its holder")
	refused.Operations = []torture.Operation{brokenAt(true, 15*ms, 60*ms)}
	require.Empty(t, checks(refused, terms), "the break was under way")
	refused.Operations = nil
	loose := terms
	loose.AssumptionsBroken = true
	require.Empty(t, checks(refused, loose), "forgotten by the server")
	stale := torture.History{Writes: append(ok.Writes[:4:4], write("a", 1, 50*ms, true, false))}
	require.Equal(t, []torture.Check{torture.Fence}, checks(stale, loose), "a stale write is wrong, whatever the server does")
	stale.Writes = append(stale.Writes, write("a", 1, 60*ms, true, false))
	require.Equal(t, []torture.Check{torture.Fence}, checks(stale, terms), "one word for each claim")

	after := func(more ...torture.Write) torture.History {
		return torture.History{Writes: append([]torture.Write{write("e", 5, 10*ms, true, true)}, more...)}
	}
	require.Empty(t, checks(after(write("f", 9, 20*ms, false, false), write("e", 5, 30*ms, true, true)), terms), "what was refused is not the last")
	require.Equal(t, []torture.Check{torture.Fence, torture.Fence}, checks(after(write("a", 1, 20*ms, true, false), write("c", 3, 30*ms, true, false)), terms),
		"after a stale write the highest token still counts")
}

func TestLoss(t *testing.T) {
	lost := func(told time.Duration) torture.History {
		one := tenure("a", 0, 900*ms, 905*ms, torture.WasLost)
		one.Told, one.Reason = told, leasing.LostExpired
		return torture.History{Tenures: []torture.Tenure{one}, Closed: 9000 * ms}
	}
	require.Empty(t, checks(lost(910*ms), terms))
	require.Empty(t, checks(lost(800*ms), terms), "taken, before the end of trust")
	require.Equal(t, []torture.Check{torture.Loss}, checks(lost(1401*ms), terms), "late")
	require.Equal(t, []torture.Check{torture.Loss}, checks(lost(0), terms), "never")
	running := torture.History{Tenures: []torture.Tenure{tenure("a", 0, 900*ms, 0, "")}, Closed: 9000 * ms}
	require.Equal(t, []torture.Check{torture.Loss}, checks(running, terms), "it never ended")
	for _, ending := range []torture.Ending{torture.GivenUp, torture.Abandoned, torture.Killed} {
		gone := torture.History{Tenures: []torture.Tenure{tenure("a", 0, 900*ms, 100*ms, ending)}, Closed: 9000 * ms}
		require.Empty(t, checks(gone, terms), ending)
	}
	require.Empty(t, checks(lost(1400*ms), terms), "within the patience")
	running.Closed = 1400 * ms
	require.Empty(t, checks(running, terms), "the run was over before it had to hear")
}

func TestLeakAndHang(t *testing.T) {
	free := func(at time.Duration) torture.History {
		return torture.History{Closed: 100 * ms, Free: []torture.Freed{{Name: "n", At: at, By: 2000 * ms}}}
	}
	require.Empty(t, checks(free(1900*ms), terms))
	require.Equal(t, []torture.Check{torture.Leak}, checks(free(2100*ms), terms))
	require.Equal(t, []torture.Check{torture.Leak}, checks(free(0), terms))
	call := op("acquire", "a", 0, 900*ms, torture.Unknown, 0)
	call.Overrun = 500 * ms
	require.Empty(t, checks(torture.History{Operations: []torture.Operation{call}}, terms))
	call.Overrun = 501 * ms
	both := torture.History{Operations: []torture.Operation{call}, Free: []torture.Freed{{Name: "n", By: 800 * ms}}}
	require.Equal(t, []torture.Check{torture.Leak, torture.Hang}, checks(both, terms), "in the order in which they happened")
	require.Equal(t, []torture.Check{torture.Hang}, checks(torture.History{Operations: []torture.Operation{call}}, terms))
	call.Overrun, call.Return, call.Worker = 0, 0, 3
	require.Equal(t, []torture.Check{torture.Hang}, checks(torture.History{Operations: []torture.Operation{call}, Closed: 100 * ms}, terms), "it never returned")
	require.Empty(t, checks(torture.History{Operations: []torture.Operation{call}, Closed: 100 * ms, Killed: []int{3}}, terms), "its process was killed")
}

// The longest trust counts, not the latest.
func TestOverlapIsFoundBehindAShortTenure(t *testing.T) {
	h := torture.History{Tenures: []torture.Tenure{
		tenure("a", 0, 900*ms, 800*ms, torture.GivenUp), tenure("b", 100*ms, 200*ms, 200*ms, torture.GivenUp), tenure("c", 300*ms, 400*ms, 400*ms, torture.GivenUp),
	}}
	require.Equal(t, []torture.Check{torture.Overlap, torture.Overlap}, checks(h, terms))
}
