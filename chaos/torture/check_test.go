package torture_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
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
