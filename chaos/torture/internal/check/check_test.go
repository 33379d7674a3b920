package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

const (
	ms  = time.Millisecond
	ttl = 1000 * ms
)

var options = check.Limits{
	DriftFactor: 1e-15, DriftFloor: 10*ms - 1, // a margin of 10 ms, since the part from DriftFactor is rounded up to 1 ns
	Patience: 500 * ms, MaxPoll: time.Second, RenewFraction: 0.6, SearchSteps: 100_000,
}

// checks returns the checks that a history violates.
func checks(h history.History, options check.Limits) (all []history.Check) {
	found, _ := check.Verify(&h, options)
	for _, v := range found {
		all = append(all, v.Check)
	}
	return all
}

// op returns an operation at the client's layer.
func op(verb, claim string, call, ret time.Duration, result history.Result, token int64) history.Operation {
	return history.Operation{Layer: history.LayerClient, Verb: verb, Name: "n", Claim: claim, TTL: ttl, Call: call, Return: ret, Result: result, Token: token}
}

func heldBy(holder, claim string, call, ret time.Duration) history.Operation {
	o := op("acquire", claim, call, ret, history.ResultHeld, 0)
	o.Holder = holder
	return o
}

// brokenAt returns a break that the faults sent, below the clients.
func brokenAt(immediate bool, call, ret time.Duration) history.Operation {
	o := op("break", "", call, ret, history.ResultDone, 0)
	o.Layer, o.Immediate = history.LayerBackend, immediate
	return o
}

// unanswered returns an operation of unknown outcome.
func unanswered(o history.Operation) history.Operation {
	o.Result = history.ResultUnknown
	return o
}

// refused returns an operation that was not applied.
func refused(o history.Operation) history.Operation {
	o.Result = history.ResultRefused
	return o
}

// atBackend returns an operation at the backend's layer.
func atBackend(o history.Operation) history.Operation {
	o.Layer = history.LayerBackend
	return o
}

func hold(claim string, from, until, end time.Duration, ending history.Ending) history.Hold {
	return history.Hold{Name: "n", Claim: claim, From: from, Until: until, End: end, Ending: ending}
}

func TestOverlap(t *testing.T) {
	const up = history.EndingGivenUp
	endless, runOut := op("acquire", "a", 0, 0, history.ResultDone, 5), brokenAt(false, 400*ms, 450*ms)
	forever := hold("a", 0, leasing.Infinite, 0, "")
	endless.TTL, forever.Token, runOut.Token, runOut.Grace = leasing.Infinite, 5, 5, 200*ms
	for name, c := range map[string]struct {
		ok     bool
		holds  []history.Hold
		breaks []history.Operation
	}{
		"one after the other": {ok: true, holds: []history.Hold{hold("a", 0, 900*ms, 100*ms, up), hold("b", 100*ms, 900*ms, 500*ms, up)}},
		"both at once":        {holds: []history.Hold{hold("a", 0, 900*ms, 101*ms, up), hold("b", 100*ms, 900*ms, 500*ms, up)}},
		"out of trust":        {ok: true, holds: []history.Hold{hold("a", 0, 900*ms, 2000*ms, up), hold("b", 900*ms, 1900*ms, 1000*ms, up)}},
		"never ended":         {holds: []history.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 899*ms, 1900*ms, 1000*ms, up)}},
		"behind a short one": {holds: []history.Hold{
			hold("a", 0, 900*ms, 800*ms, up), hold("b", 100*ms, 200*ms, 200*ms, up), hold("c", 300*ms, 400*ms, 400*ms, up),
		}},
		"broken at once": {
			ok:     true,
			holds:  []history.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken to run out": {
			holds:  []history.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{brokenAt(false, 400*ms, 450*ms)},
		},
		"infinite, broken to run out, and its holder does not notice it": {
			ok:     true,
			holds:  []history.Hold{forever, hold("b", 610*ms, 900*ms, 700*ms, up)},
			breaks: []history.Operation{endless, runOut},
		},
		"infinite, broken to run out, and taken within the grace": {
			holds:  []history.Hold{forever, hold("b", 580*ms, 900*ms, 700*ms, up)},
			breaks: []history.Operation{endless, runOut},
		},
		"taken before the break": {
			holds:  []history.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 300*ms, 900*ms, 380*ms, up)},
			breaks: []history.Operation{brokenAt(true, 400*ms, 450*ms)},
		},
		"broken, and never notified": {
			ok:     true,
			holds:  []history.Hold{hold("a", 100*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{unanswered(brokenAt(true, 400*ms, 0))},
		},
		"a break that was refused": {
			holds:  []history.Hold{hold("a", 0, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{refused(brokenAt(true, 400*ms, 450*ms))},
		},
		"broken in the instant of its grant": {
			ok:     true,
			holds:  []history.Hold{hold("a", 300*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{brokenAt(true, 200*ms, 300*ms)},
		},
		"an earlier one was broken": {
			holds:  []history.Hold{hold("a", 300*ms, 900*ms, 0, ""), hold("b", 500*ms, 900*ms, 600*ms, up)},
			breaks: []history.Operation{brokenAt(true, 100*ms, 200*ms)},
		},
	} {
		h := history.History{TTL: ttl, Holds: c.holds, Operations: c.breaks}
		if c.ok {
			require.NotContains(t, checks(h, options), history.CheckOverlap, name)
		} else {
			require.Contains(t, checks(h, options), history.CheckOverlap, name)
		}
	}
}

func TestTokens(t *testing.T) {
	loose := options
	loose.AssumptionsBroken = true // tokens must rise even then
	grants := func(second, third int64) history.History {
		return history.History{Operations: []history.Operation{
			op("acquire", "a", 0, 10*ms, history.ResultDone, 5), op("acquire", "b", 20*ms, 30*ms, history.ResultDone, second), op("acquire", "c", 25*ms, 40*ms, history.ResultDone, third),
		}}
	}
	require.Empty(t, checks(grants(6, 7), loose))
	require.Empty(t, checks(grants(7, 6), loose), "those two were under way at once")
	require.Equal(t, []history.Check{history.CheckTokens}, checks(grants(4, 6), loose), "reset")
	require.Contains(t, checks(grants(5, 6), loose), history.CheckTokens, "the same again")
	require.Equal(t, []history.Check{history.CheckTokens}, checks(grants(6, 6), loose), "one for two")

	instant := history.History{Operations: []history.Operation{op("acquire", "a", 0, 10*ms, history.ResultDone, 5), op("acquire", "b", 10*ms, 30*ms, history.ResultDone, 4)}}
	require.Empty(t, checks(instant, loose), "the first may have returned after the second began")
	reset := grants(4, 6)
	for i, o := range reset.Operations {
		reset.Operations[i] = atBackend(o)
	}
	require.Equal(t, []history.Check{history.CheckTokens}, checks(reset, loose), "a grant without a reply counts, too")
	reset.Operations = append(reset.Operations, grants(4, 6).Operations...)
	require.Equal(t, []history.Check{history.CheckTokens}, checks(reset, loose), "recorded twice, reported once")
}

func TestFence(t *testing.T) {
	write := func(claim string, token int64, at time.Duration, accepted, trusted bool) history.Write {
		return history.Write{Name: "n", Claim: claim, Token: token, Call: at, Return: at, Accepted: accepted, Trusted: trusted}
	}
	ok := history.History{Writes: []history.Write{
		write("a", 1, 10*ms, true, true), write("a", 1, 20*ms, true, false), write("b", 2, 30*ms, true, true), write("a", 1, 40*ms, false, false),
	}}
	require.Empty(t, checks(ok, options))
	for name, w := range map[string]history.Write{
		"stale":             write("a", 1, 50*ms, true, false),
		"the same token":    write("c", 2, 50*ms, true, true),
		"a holder in trust": write("c", 1, 50*ms, false, true),
	} {
		bad := history.History{Writes: append(ok.Writes[:4:4], w)}
		require.Equal(t, []history.Check{history.CheckFence}, checks(bad, options), name)
	}
	refused := history.History{
		Writes:     append(ok.Writes[:4:4], write("c", 1, 50*ms, false, true)),
		Operations: []history.Operation{brokenAt(true, 15*ms, 20*ms)},
	}
	require.Empty(t, checks(refused, options), "broken under its holder")
	refused.Operations = []history.Operation{brokenAt(true, 15*ms, 60*ms)}
	require.Empty(t, checks(refused, options), "the break was under way")
	refused.Operations = []history.Operation{brokenAt(true, 50*ms, 60*ms)}
	require.Empty(t, checks(refused, options), "in that instant")
	refused.Operations = []history.Operation{brokenAt(true, 51*ms, 60*ms)}
	require.Equal(t, []history.Check{history.CheckFence}, checks(refused, options), "the break came later")
	refused.Operations = nil
	loose := options
	loose.AssumptionsBroken = true
	require.Empty(t, checks(refused, loose), "forgotten by the server")
	stale := history.History{Writes: append(ok.Writes[:4:4], write("a", 1, 50*ms, true, false))}
	require.Equal(t, []history.Check{history.CheckFence}, checks(stale, loose), "a stale write is wrong, whatever the server does")
	stale.Writes = append(stale.Writes, write("a", 1, 60*ms, true, false))
	require.Equal(t, []history.Check{history.CheckFence}, checks(stale, options), "one word for each claim")

	after := func(more ...history.Write) history.History {
		return history.History{Writes: append([]history.Write{write("e", 5, 10*ms, true, true)}, more...)}
	}
	require.Empty(t, checks(after(write("f", 9, 20*ms, false, false), write("e", 5, 30*ms, true, true)), options), "what was refused is not the last")
	require.Equal(t, []history.Check{history.CheckFence, history.CheckFence}, checks(after(write("a", 1, 20*ms, true, false), write("c", 3, 30*ms, true, false)), options),
		"after a stale write the highest token still counts")
}

func TestLoss(t *testing.T) {
	lost := func(noticed time.Duration) history.History {
		one := hold("a", 0, 900*ms, 905*ms, history.EndingLost)
		one.Noticed, one.Reason = noticed, leasing.LostExpired
		return history.History{Holds: []history.Hold{one}, Closed: 9000 * ms}
	}
	require.Empty(t, checks(lost(910*ms), options))
	require.Empty(t, checks(lost(800*ms), options), "taken, before the end of trust")
	require.Equal(t, []history.Check{history.CheckLoss}, checks(lost(1401*ms), options), "late")
	require.Equal(t, []history.Check{history.CheckLoss}, checks(lost(0), options), "never")
	running := history.History{Holds: []history.Hold{hold("a", 0, 900*ms, 0, "")}, Closed: 9000 * ms}
	require.Equal(t, []history.Check{history.CheckLoss}, checks(running, options), "it never ended")
	for _, ending := range []history.Ending{history.EndingGivenUp, history.EndingAbandoned, history.EndingKilled} {
		gone := history.History{Holds: []history.Hold{hold("a", 0, 900*ms, 100*ms, ending)}, Closed: 9000 * ms}
		require.Empty(t, checks(gone, options), ending)
	}
	require.Empty(t, checks(lost(1400*ms), options), "within the patience")
	running.Closed = 1400 * ms
	require.Empty(t, checks(running, options), "the run was over before it had to notice")
}

func TestLeakAndHang(t *testing.T) {
	free := func(at time.Duration) history.History {
		return history.History{Closed: 100 * ms, Free: []history.FreeAt{{Name: "n", At: at, By: 2000 * ms}}}
	}
	require.Empty(t, checks(free(1900*ms), options))
	require.Equal(t, []history.Check{history.CheckLeak}, checks(free(2100*ms), options))
	require.Equal(t, []history.Check{history.CheckLeak}, checks(free(0), options))
	call := op("acquire", "a", 0, 900*ms, history.ResultUnknown, 0)
	call.Overrun = 500 * ms
	require.Empty(t, checks(history.History{Operations: []history.Operation{call}}, options))
	call.Overrun = 501 * ms
	both := history.History{Operations: []history.Operation{call}, Free: []history.FreeAt{{Name: "n", By: 800 * ms}}}
	require.Equal(t, []history.Check{history.CheckLeak, history.CheckHang}, checks(both, options), "in the order in which they happened")
	require.Equal(t, []history.Check{history.CheckHang}, checks(history.History{Operations: []history.Operation{call}}, options))
	call.Overrun, call.Return, call.Worker = 0, 0, 3
	require.Equal(t, []history.Check{history.CheckHang}, checks(history.History{Operations: []history.Operation{call}, Closed: 100 * ms}, options), "it never returned")
	require.Empty(t, checks(history.History{Operations: []history.Operation{call}, Closed: 100 * ms, Killed: []int{3}}, options), "its process was killed")
}

// A grant is compared with the earlier hold whose trust lasts longest, not with the latest hold.
func TestOverlapIsFoundBehindAShortHold(t *testing.T) {
	h := history.History{Holds: []history.Hold{
		hold("a", 0, 900*ms, 800*ms, history.EndingGivenUp), hold("b", 100*ms, 200*ms, 200*ms, history.EndingGivenUp), hold("c", 300*ms, 400*ms, 400*ms, history.EndingGivenUp),
	}}
	require.Equal(t, []history.Check{history.CheckOverlap, history.CheckOverlap}, checks(h, options))
}
