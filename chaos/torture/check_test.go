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

var options = torture.VerifyOptions{Drift: 10 * ms, Options: torture.Options{Patience: 500 * ms, MaxSearchSteps: 100_000}}

// checks returns the checks that a history violates.
func checks(h torture.History, options torture.VerifyOptions) (all []torture.Check) {
	found, _ := torture.VerifyHistory(&h, options)
	for _, v := range found {
		all = append(all, v.Check)
	}
	return all
}

// op returns an operation at the client's layer.
func op(verb, claim string, call, ret time.Duration, result torture.Result, token int64) torture.Operation {
	return torture.Operation{Layer: torture.LayerClient, Verb: verb, Name: "n", Claim: claim, TTL: ttl, Call: call, Return: ret, Result: result, Token: token}
}

func heldBy(holder, claim string, call, ret time.Duration) torture.Operation {
	o := op("acquire", claim, call, ret, torture.ResultHeld, 0)
	o.Holder = holder
	return o
}

// brokenAt returns a break by the faults, below the clients.
func brokenAt(immediate bool, call, ret time.Duration) torture.Operation {
	o := op("break", "", call, ret, torture.ResultDone, 0)
	o.Layer, o.Immediate = torture.LayerBackend, immediate
	return o
}

// unheard returns an operation of unknown outcome.
func unheard(o torture.Operation) torture.Operation {
	o.Result = torture.ResultUnknown
	return o
}

// refused returns an operation that was not applied.
func refused(o torture.Operation) torture.Operation {
	o.Result = torture.ResultRefused
	return o
}

// below returns an operation at the backend's layer.
func below(o torture.Operation) torture.Operation {
	o.Layer = torture.LayerBackend
	return o
}

func hold(claim string, from, until, end time.Duration, ending torture.Ending) torture.Hold {
	return torture.Hold{Name: "n", Claim: claim, From: from, Until: until, End: end, Ending: ending}
}

func TestOverlap(t *testing.T) {
	const up = torture.EndingGivenUp
	endless, runOut := op("acquire", "a", 0, 0, torture.ResultDone, 5), brokenAt(false, 400*ms, 450*ms)
	forever := hold("a", 0, leasing.Infinite, 0, "")
	endless.TTL, forever.Token, runOut.Token, runOut.Grace = leasing.Infinite, 5, 5, 200*ms
	for name, c := range map[string]struct {
		ok     bool
		holds  []torture.Hold
		breaks []torture.Operation
	}{
		"one after the other": {ok: true, holds: []torture.Hold{hold("a", 0, 900*ms, 100*ms, up), hold("b", 100*ms, 900*ms, 500*ms, up)}},
		"both at once":        {holds: []torture.Hold{hold("a", 0, 900*ms, 101*ms, up), hold("b", 100*ms, 900*ms, 500*ms, up)}},
		"out of trust":        {ok: true, holds: []torture.Hold{hold("a", 0, 900*ms, 2000*ms, up), hold("b", 900*ms, 1900*ms, 1000*ms, up)}},
		"never ended":         {holds: []torture.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 899*ms, 1900*ms, 1000*ms, up)}},
		"behind a short one": {holds: []torture.Hold{
			hold("a", 0, 900*ms, 800*ms, up), hold("b", 100*ms, 200*ms, 200*ms, up), hold("c", 300*ms, 400*ms, 400*ms, up),
		}},
		"broken at once": {
			ok:     true,
			holds:  []torture.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken to run out": {
			holds:  []torture.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{brokenAt(false, 400*ms, 450*ms)},
		},
		"infinite, broken to run out, and its holder does not hear of it": {
			ok:     true,
			holds:  []torture.Hold{forever, hold("b", 610*ms, 900*ms, 700*ms, up)},
			breaks: []torture.Operation{endless, runOut},
		},
		"infinite, broken to run out, and taken within the grace": {
			holds:  []torture.Hold{forever, hold("b", 580*ms, 900*ms, 700*ms, up)},
			breaks: []torture.Operation{endless, runOut},
		},
		"taken before the break": {
			holds:  []torture.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 300*ms, 900*ms, 380*ms, up)},
			breaks: []torture.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken by who never heard of it": {
			ok:     true,
			holds:  []torture.Hold{hold("a", 100*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{unheard(brokenAt(true, 400*ms, 0))},
		},
		"a break that was refused": {
			holds:  []torture.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{refused(brokenAt(true, 400*ms, 450*ms))},
		},
		"broken in the instant of its grant": {
			ok:     true,
			holds:  []torture.Hold{hold("a", 300*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{brokenAt(true, 200*ms, 300*ms)},
		},
		"an earlier one was broken": {
			holds:  []torture.Hold{hold("a", 300*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []torture.Operation{brokenAt(true, 100*ms, 200*ms)},
		},
	} {
		h := torture.History{TTL: ttl, Holds: c.holds, Operations: c.breaks}
		if c.ok {
			require.NotContains(t, checks(h, options), torture.CheckOverlap, name)
		} else {
			require.Contains(t, checks(h, options), torture.CheckOverlap, name)
		}
	}
}

func TestTokens(t *testing.T) {
	loose := options
	loose.AssumptionsBroken = true // tokens must rise in this case, too
	grants := func(second, third int64) torture.History {
		return torture.History{Operations: []torture.Operation{
			op("acquire", "a", 0, 10*ms, torture.ResultDone, 5), op("acquire", "b", 20*ms, 30*ms, torture.ResultDone, second), op("acquire", "c", 25*ms, 40*ms, torture.ResultDone, third),
		}}
	}
	require.Empty(t, checks(grants(6, 7), loose))
	require.Empty(t, checks(grants(7, 6), loose), "those two were under way at once")
	require.Equal(t, []torture.Check{torture.CheckTokens}, checks(grants(4, 6), loose), "reset")
	require.Contains(t, checks(grants(5, 6), loose), torture.CheckTokens, "the same again")
	require.Equal(t, []torture.Check{torture.CheckTokens}, checks(grants(6, 6), loose), "one for two")

	instant := torture.History{Operations: []torture.Operation{op("acquire", "a", 0, 10*ms, torture.ResultDone, 5), op("acquire", "b", 10*ms, 30*ms, torture.ResultDone, 4)}}
	require.Empty(t, checks(instant, loose), "the first may have returned after the second began")
	reset := grants(4, 6)
	for i, o := range reset.Operations {
		reset.Operations[i] = below(o)
	}
	require.Equal(t, []torture.Check{torture.CheckTokens}, checks(reset, loose), "what nobody heard of counts, too")
	reset.Operations = append(reset.Operations, grants(4, 6).Operations...)
	require.Equal(t, []torture.Check{torture.CheckTokens}, checks(reset, loose), "seen twice, told once")
}

func TestFence(t *testing.T) {
	write := func(claim string, token int64, at time.Duration, accepted, trusted bool) torture.Write {
		return torture.Write{Name: "n", Claim: claim, Token: token, Call: at, Return: at, Accepted: accepted, Trusted: trusted}
	}
	ok := torture.History{Writes: []torture.Write{
		write("a", 1, 10*ms, true, true), write("a", 1, 20*ms, true, false), write("b", 2, 30*ms, true, true), write("a", 1, 40*ms, false, false),
	}}
	require.Empty(t, checks(ok, options))
	for name, w := range map[string]torture.Write{
		"stale":             write("a", 1, 50*ms, true, false),
		"the same token":    write("c", 2, 50*ms, true, true),
		"a holder in trust": write("c", 1, 50*ms, false, true),
	} {
		bad := torture.History{Writes: append(ok.Writes[:4:4], w)}
		require.Equal(t, []torture.Check{torture.CheckFence}, checks(bad, options), name)
	}
	refused := torture.History{
		Writes:     append(ok.Writes[:4:4], write("c", 1, 50*ms, false, true)),
		Operations: []torture.Operation{brokenAt(true, 15*ms, 20*ms)},
	}
	require.Empty(t, checks(refused, options), "broken under its holder")
	refused.Operations = []torture.Operation{brokenAt(true, 15*ms, 60*ms)}
	require.Empty(t, checks(refused, options), "the break was under way")
	refused.Operations = []torture.Operation{brokenAt(true, 50*ms, 60*ms)}
	require.Empty(t, checks(refused, options), "in that instant")
	refused.Operations = []torture.Operation{brokenAt(true, 51*ms, 60*ms)}
	require.Equal(t, []torture.Check{torture.CheckFence}, checks(refused, options), "the break came later")
	refused.Operations = nil
	loose := options
	loose.AssumptionsBroken = true
	require.Empty(t, checks(refused, loose), "forgotten by the server")
	stale := torture.History{Writes: append(ok.Writes[:4:4], write("a", 1, 50*ms, true, false))}
	require.Equal(t, []torture.Check{torture.CheckFence}, checks(stale, loose), "a stale write is wrong, whatever the server does")
	stale.Writes = append(stale.Writes, write("a", 1, 60*ms, true, false))
	require.Equal(t, []torture.Check{torture.CheckFence}, checks(stale, options), "one word for each claim")

	after := func(more ...torture.Write) torture.History {
		return torture.History{Writes: append([]torture.Write{write("e", 5, 10*ms, true, true)}, more...)}
	}
	require.Empty(t, checks(after(write("f", 9, 20*ms, false, false), write("e", 5, 30*ms, true, true)), options), "what was refused is not the last")
	require.Equal(t, []torture.Check{torture.CheckFence, torture.CheckFence}, checks(after(write("a", 1, 20*ms, true, false), write("c", 3, 30*ms, true, false)), options),
		"after a stale write the highest token still counts")
}

func TestLoss(t *testing.T) {
	lost := func(told time.Duration) torture.History {
		one := hold("a", 0, 900*ms, 905*ms, torture.EndingLost)
		one.Told, one.Reason = told, leasing.LostExpired
		return torture.History{Holds: []torture.Hold{one}, Closed: 9000 * ms}
	}
	require.Empty(t, checks(lost(910*ms), options))
	require.Empty(t, checks(lost(800*ms), options), "taken, before the end of trust")
	require.Equal(t, []torture.Check{torture.CheckLoss}, checks(lost(1401*ms), options), "late")
	require.Equal(t, []torture.Check{torture.CheckLoss}, checks(lost(0), options), "never")
	running := torture.History{Holds: []torture.Hold{hold("a", 0, 900*ms, 0, "")}, Closed: 9000 * ms}
	require.Equal(t, []torture.Check{torture.CheckLoss}, checks(running, options), "it never ended")
	for _, ending := range []torture.Ending{torture.EndingGivenUp, torture.EndingAbandoned, torture.EndingKilled} {
		gone := torture.History{Holds: []torture.Hold{hold("a", 0, 900*ms, 100*ms, ending)}, Closed: 9000 * ms}
		require.Empty(t, checks(gone, options), ending)
	}
	require.Empty(t, checks(lost(1400*ms), options), "within the patience")
	running.Closed = 1400 * ms
	require.Empty(t, checks(running, options), "the run was over before it had to hear")
}

func TestLeakAndHang(t *testing.T) {
	free := func(at time.Duration) torture.History {
		return torture.History{Closed: 100 * ms, Free: []torture.FreeAt{{Name: "n", At: at, By: 2000 * ms}}}
	}
	require.Empty(t, checks(free(1900*ms), options))
	require.Equal(t, []torture.Check{torture.CheckLeak}, checks(free(2100*ms), options))
	require.Equal(t, []torture.Check{torture.CheckLeak}, checks(free(0), options))
	call := op("acquire", "a", 0, 900*ms, torture.ResultUnknown, 0)
	call.Overrun = 500 * ms
	require.Empty(t, checks(torture.History{Operations: []torture.Operation{call}}, options))
	call.Overrun = 501 * ms
	both := torture.History{Operations: []torture.Operation{call}, Free: []torture.FreeAt{{Name: "n", By: 800 * ms}}}
	require.Equal(t, []torture.Check{torture.CheckLeak, torture.CheckHang}, checks(both, options), "in the order in which they happened")
	require.Equal(t, []torture.Check{torture.CheckHang}, checks(torture.History{Operations: []torture.Operation{call}}, options))
	call.Overrun, call.Return, call.Worker = 0, 0, 3
	require.Equal(t, []torture.Check{torture.CheckHang}, checks(torture.History{Operations: []torture.Operation{call}, Closed: 100 * ms}, options), "it never returned")
	require.Empty(t, checks(torture.History{Operations: []torture.Operation{call}, Closed: 100 * ms, Killed: []int{3}}, options), "its process was killed")
}

// The longest trust counts, not the latest.
func TestOverlapIsFoundBehindAShortTenure(t *testing.T) {
	h := torture.History{Holds: []torture.Hold{
		hold("a", 0, 900*ms, 800*ms, torture.EndingGivenUp), hold("b", 100*ms, 200*ms, 200*ms, torture.EndingGivenUp), hold("c", 300*ms, 400*ms, 400*ms, torture.EndingGivenUp),
	}}
	require.Equal(t, []torture.Check{torture.CheckOverlap, torture.CheckOverlap}, checks(h, options))
}
