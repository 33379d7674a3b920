package torture_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture"
)

func word(verb string, call, ret time.Duration, result torture.Result) torture.Word {
	return torture.Word{Name: "n", Claim: "a", Verb: verb, Call: call, Return: ret, Result: result}
}

// The check compares a lease's answers to its holder with the replies to its manager.
func TestWord(t *testing.T) {
	acquired := op("acquire", "a", 0, 10*ms, torture.ResultDone, 5)
	released := op("release", "a", 500*ms, 520*ms, torture.ResultDone, 5)
	renewed := op("renew", "a", 500*ms, 520*ms, torture.ResultDone, 5)
	late := renewed
	late.Overrun = 5 * ms
	lost := torture.Notice{Name: "n", Claim: "a", Kind: leasing.EventLost, Reason: leasing.LostTaken, At: 300 * ms, Own: true}
	cut, unclear := word("renew", 500*ms, 520*ms, torture.ResultUnknown), word("renew", 500*ms, 520*ms, torture.ResultUnknown)
	cut.Cut, unclear.Unclear = true, true
	for name, c := range map[string]struct {
		ok      bool
		op      torture.Operation
		notices []torture.Notice
		word    torture.Word
	}{
		"released":                      {ok: true, op: released, word: word("release", 500*ms, 520*ms, torture.ResultDone)},
		"released before the answer":    {op: released, word: word("release", 500*ms, 519*ms, torture.ResultDone)},
		"released without an answer":    {op: unheard(released), word: word("do", 500*ms, 600*ms, torture.ResultDone)},
		"given up at the end":           {ok: true, op: unheard(released), word: word("release", 500*ms, 1500*ms, torture.ResultUnknown)},
		"given up early":                {op: unheard(released), word: word("release", 500*ms, 900*ms, torture.ResultUnknown)},
		"not given up":                  {op: unheard(released), word: word("release", 500*ms, 2100*ms, torture.ResultUnknown)},
		"lost":                          {ok: true, op: released, notices: []torture.Notice{lost}, word: word("release", 500*ms, 520*ms, torture.ResultLost)},
		"lost, and not said":            {op: released, notices: []torture.Notice{lost}, word: word("release", 500*ms, 520*ms, torture.ResultDone)},
		"lost, which it is not":         {op: released, word: word("release", 500*ms, 520*ms, torture.ResultLost)},
		"the end of a lost lease":       {ok: true, op: renewed, notices: []torture.Notice{lost}, word: word("end", 300*ms, 300*ms, torture.ResultLost)},
		"an end without a cause":        {op: renewed, notices: []torture.Notice{lost}, word: word("end", 300*ms, 300*ms, torture.ResultUnknown)},
		"renewed":                       {ok: true, op: renewed, word: word("renew", 500*ms, 520*ms, torture.ResultDone)},
		"renewed without an answer":     {op: unheard(renewed), word: word("renew", 500*ms, 520*ms, torture.ResultDone)},
		"renewed late":                  {ok: true, op: late, word: word("renew", 500*ms, 520*ms, torture.ResultDone)},
		"renewed too late":              {ok: true, op: late, word: word("renew", 500*ms, 520*ms, torture.ResultUnknown)},
		"renewed, and hidden":           {op: renewed, word: word("renew", 500*ms, 520*ms, torture.ResultUnknown)},
		"renewed, and left before":      {ok: true, op: renewed, word: cut},
		"an error that nobody explains": {op: unheard(renewed), word: unclear},
	} {
		h := torture.History{TTL: ttl, Operations: []torture.Operation{acquired, c.op}, Notices: c.notices, Words: []torture.Word{c.word}}
		if c.ok {
			require.NotContains(t, checks(h, options), torture.CheckWord, name)
		} else {
			require.Contains(t, checks(h, options), torture.CheckWord, name)
		}
	}
	h := torture.History{Holds: []torture.Hold{hold("a", 0, 9000*ms, 1400*ms, torture.EndingGivenUp)}, Words: []torture.Word{word("leave", 400*ms, 0, "")}}
	require.NotContains(t, checks(h, options), torture.CheckWord)
	h.Holds[0].End = 1401 * ms
	require.Contains(t, checks(h, options), torture.CheckWord, "the function of a Do is not told that its caller has left")
}

func TestRenewalsAreThoseThatWereAskedFor(t *testing.T) {
	acquired, renewed := op("acquire", "a", 0, 0, torture.ResultDone, 5), op("renew", "a", 500*ms, 520*ms, torture.ResultDone, 5)
	history := func(most int, reason leasing.LostReason, renewals ...torture.Operation) torture.History {
		one := hold("a", 0, 900*ms, 900*ms, torture.EndingLost)
		one.Most, one.Reason, one.Told = most, reason, 900*ms
		return torture.History{TTL: ttl, Operations: append([]torture.Operation{acquired}, renewals...), Holds: []torture.Hold{one}}
	}
	require.NotContains(t, checks(history(1, leasing.LostRenewalLimit, renewed), options), torture.CheckRenewal)
	require.Contains(t, checks(history(0, leasing.LostExpired, renewed), options), torture.CheckRenewal, "none was to be")
	require.Contains(t, checks(history(1, leasing.LostExpired, renewed), options), torture.CheckRenewal, "the reason is the limit")
	require.Contains(t, checks(history(1, leasing.LostRenewalLimit, renewed, renewed), options), torture.CheckRenewal, "one too many")

	long := renewed
	long.Deadline = 1200 * ms
	renews := history(0, leasing.LostExpired, long)
	renews.Holds[0].Renews = true
	require.Contains(t, checks(renews, options), torture.CheckRenewal, "it leaves no time for another attempt")
	renews.Operations[1].Deadline = 660 * ms
	require.NotContains(t, checks(renews, options), torture.CheckRenewal)
}

func TestCleanUpIsForWhatMayHaveBeenGranted(t *testing.T) {
	history := func(acquired torture.Operation, released time.Duration) torture.History {
		release := op("release", "a", released, released, torture.ResultDone, 0)
		return torture.History{TTL: ttl, Operations: []torture.Operation{acquired, release}, FaultsEnd: 9000 * ms}
	}
	lost := op("acquire", "a", 0, 100*ms, torture.ResultUnknown, 0)
	require.Empty(t, checks(history(lost, 1000*ms), options))
	refused := heldBy("b", "a", 0, 100*ms)
	require.Contains(t, checks(history(refused, 1000*ms), options), torture.CheckCleanup, "it was refused")
	refused.Overrun = ms
	require.NotContains(t, checks(history(refused, 1000*ms), options), torture.CheckCleanup, "when its manager had left")
}

func TestAWaitGoesOnUntilItHasToEnd(t *testing.T) {
	gaveUp := torture.Wait{Name: "n", Number: 1, From: 0, To: 1000 * ms, Bound: 3000 * ms, Result: torture.ResultUnknown}
	h := torture.History{Waits: []torture.Wait{gaveUp}, FaultsEnd: 9000 * ms}
	require.Equal(t, []torture.Check{torture.CheckHang}, checks(h, options), "in an outage")
	h.Words = []torture.Word{{Verb: "close", Call: 900 * ms, Return: 1000 * ms}}
	require.Empty(t, checks(h, options), "its manager was closed")
	h.Words[0].Return, h.Waits[0].To = 910*ms, 1500*ms
	require.Equal(t, []torture.Check{torture.CheckHang}, checks(h, options), "it outlived its manager")
}

func TestAReleaseComesNeitherTooEarlyNorAfterTheProcess(t *testing.T) {
	acquired := op("acquire", "a", 0, 10*ms, torture.ResultDone, 5)
	for name, c := range map[string]struct {
		ok     bool
		ending torture.Ending
		at     time.Duration
	}{
		"given up":            {true, torture.EndingGivenUp, 600 * ms},
		"of a closed manager": {false, torture.EndingAbandoned, 600 * ms},
	} {
		held := hold("a", 10*ms, 900*ms, 500*ms, c.ending)
		if !c.ok {
			held.Reason = leasing.LostClosed
		}
		h := torture.History{
			TTL: ttl, Holds: []torture.Hold{held},
			Operations: []torture.Operation{acquired, op("release", "a", c.at, c.at+10*ms, torture.ResultDone, 5)},
		}
		if c.ok {
			require.NotContains(t, checks(h, options), torture.CheckRelease, name)
		} else {
			require.Contains(t, checks(h, options), torture.CheckRelease, name)
		}
	}
}
