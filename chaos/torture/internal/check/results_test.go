package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

func reply(verb string, call, ret time.Duration, result history.Result) history.Answer {
	return history.Answer{Name: "n", Claim: "a", Verb: verb, Call: call, Return: ret, Result: result}
}

// The check compares the answers that a holder got from its lease with the replies that its manager
// got.
func TestReply(t *testing.T) {
	acquired := op("acquire", "a", 0, 10*ms, history.ResultDone, 5)
	released := op("release", "a", 500*ms, 520*ms, history.ResultDone, 5)
	renewed := op("renew", "a", 500*ms, 520*ms, history.ResultDone, 5)
	late := renewed
	late.Overrun = 5 * ms
	lost := history.Observation{Name: "n", Claim: "a", Kind: leasing.EventLost, Reason: leasing.LostTaken, At: 300 * ms, Own: true}
	cut, unclear := reply("renew", 500*ms, 520*ms, history.ResultUnknown), reply("renew", 500*ms, 520*ms, history.ResultUnknown)
	cut.Cut, unclear.Unclear = true, true
	for name, c := range map[string]struct {
		ok       bool
		op       history.Operation
		observed []history.Observation
		word     history.Answer
	}{
		"released":                      {ok: true, op: released, word: reply("release", 500*ms, 520*ms, history.ResultDone)},
		"released before the answer":    {op: released, word: reply("release", 500*ms, 519*ms, history.ResultDone)},
		"released without an answer":    {op: unanswered(released), word: reply("do", 500*ms, 600*ms, history.ResultDone)},
		"given up at the end":           {ok: true, op: unanswered(released), word: reply("release", 500*ms, 1500*ms, history.ResultUnknown)},
		"given up early":                {op: unanswered(released), word: reply("release", 500*ms, 900*ms, history.ResultUnknown)},
		"not given up":                  {op: unanswered(released), word: reply("release", 500*ms, 2100*ms, history.ResultUnknown)},
		"lost":                          {ok: true, op: released, observed: []history.Observation{lost}, word: reply("release", 500*ms, 520*ms, history.ResultLost)},
		"lost, and not said":            {op: released, observed: []history.Observation{lost}, word: reply("release", 500*ms, 520*ms, history.ResultDone)},
		"lost, which it is not":         {op: released, word: reply("release", 500*ms, 520*ms, history.ResultLost)},
		"the end of a lost lease":       {ok: true, op: renewed, observed: []history.Observation{lost}, word: reply("end", 300*ms, 300*ms, history.ResultLost)},
		"an end without a cause":        {op: renewed, observed: []history.Observation{lost}, word: reply("end", 300*ms, 300*ms, history.ResultUnknown)},
		"renewed":                       {ok: true, op: renewed, word: reply("renew", 500*ms, 520*ms, history.ResultDone)},
		"renewed without an answer":     {op: unanswered(renewed), word: reply("renew", 500*ms, 520*ms, history.ResultDone)},
		"renewed late":                  {ok: true, op: late, word: reply("renew", 500*ms, 520*ms, history.ResultDone)},
		"renewed too late":              {ok: true, op: late, word: reply("renew", 500*ms, 520*ms, history.ResultUnknown)},
		"renewed, and hidden":           {op: renewed, word: reply("renew", 500*ms, 520*ms, history.ResultUnknown)},
		"renewed, and left before":      {ok: true, op: renewed, word: cut},
		"an error that nobody explains": {op: unanswered(renewed), word: unclear},
	} {
		h := history.History{TTL: ttl, Operations: []history.Operation{acquired, c.op}, Observed: c.observed, Answers: []history.Answer{c.word}}
		if c.ok {
			require.NotContains(t, checks(h, options), history.CheckResults, name)
		} else {
			require.Contains(t, checks(h, options), history.CheckResults, name)
		}
	}
	h := history.History{Holds: []history.Hold{hold("a", 0, 9000*ms, 1400*ms, history.EndingGivenUp)}, Answers: []history.Answer{reply("leave", 400*ms, 0, "")}}
	require.NotContains(t, checks(h, options), history.CheckResults)
	h.Holds[0].End = 1401 * ms
	require.Contains(t, checks(h, options), history.CheckResults, "the function of a Do is not notified that its caller has left")
}

func TestRenewalsAreThoseThatWereAskedFor(t *testing.T) {
	acquired, renewed := op("acquire", "a", 0, 0, history.ResultDone, 5), op("renew", "a", 500*ms, 520*ms, history.ResultDone, 5)
	of := func(most int, reason leasing.LostReason, renewals ...history.Operation) history.History {
		one := hold("a", 0, 900*ms, 900*ms, history.EndingLost)
		one.Most, one.Reason, one.Noticed = most, reason, 900*ms
		return history.History{TTL: ttl, Operations: append([]history.Operation{acquired}, renewals...), Holds: []history.Hold{one}}
	}
	require.NotContains(t, checks(of(1, leasing.LostRenewalLimit, renewed), options), history.CheckRenewal)
	require.Contains(t, checks(of(0, leasing.LostExpired, renewed), options), history.CheckRenewal, "none was to be")
	require.Contains(t, checks(of(1, leasing.LostExpired, renewed), options), history.CheckRenewal, "the reason is the limit")
	require.Contains(t, checks(of(1, leasing.LostRenewalLimit, renewed, renewed), options), history.CheckRenewal, "one too many")

	long := renewed
	long.Deadline = 1200 * ms
	renews := of(0, leasing.LostExpired, long)
	renews.Holds[0].Renews = true
	require.Contains(t, checks(renews, options), history.CheckRenewal, "it leaves no time for another attempt")
	renews.Operations[1].Deadline = 660 * ms
	require.NotContains(t, checks(renews, options), history.CheckRenewal)
}

func TestCleanUpIsForWhatMayHaveBeenGranted(t *testing.T) {
	of := func(acquired history.Operation, released time.Duration) history.History {
		release := op("release", "a", released, released, history.ResultDone, 0)
		return history.History{TTL: ttl, Operations: []history.Operation{acquired, release}, FaultsEnd: 9000 * ms}
	}
	lost := op("acquire", "a", 0, 100*ms, history.ResultUnknown, 0)
	require.Empty(t, checks(of(lost, 1000*ms), options))
	refused := heldBy("b", "a", 0, 100*ms)
	require.Contains(t, checks(of(refused, 1000*ms), options), history.CheckCleanup, "it was refused")
	refused.Overrun = ms
	require.NotContains(t, checks(of(refused, 1000*ms), options), history.CheckCleanup, "when its manager had left")
}

func TestAWaitGoesOnUntilItHasToEnd(t *testing.T) {
	gaveUp := history.Wait{Name: "n", Number: 1, From: 0, To: 1000 * ms, Bound: 3000 * ms, Result: history.ResultUnknown}
	h := history.History{Waits: []history.Wait{gaveUp}, FaultsEnd: 9000 * ms}
	require.Equal(t, []history.Check{history.CheckHang}, checks(h, options), "in an outage")
	h.Answers = []history.Answer{{Verb: "close", Call: 900 * ms, Return: 1000 * ms}}
	require.Empty(t, checks(h, options), "its manager was closed")
	h.Answers[0].Return, h.Waits[0].To = 910*ms, 1500*ms
	require.Equal(t, []history.Check{history.CheckHang}, checks(h, options), "it outlived its manager")
}

func TestAReleaseComesNeitherTooEarlyNorAfterTheProcess(t *testing.T) {
	acquired := op("acquire", "a", 0, 10*ms, history.ResultDone, 5)
	for name, c := range map[string]struct {
		ok     bool
		ending history.Ending
		at     time.Duration
	}{
		"given up":            {true, history.EndingGivenUp, 600 * ms},
		"of a closed manager": {false, history.EndingAbandoned, 600 * ms},
	} {
		held := hold("a", 10*ms, 900*ms, 500*ms, c.ending)
		if !c.ok {
			held.Reason = leasing.LostClosed
		}
		h := history.History{
			TTL: ttl, Holds: []history.Hold{held},
			Operations: []history.Operation{acquired, op("release", "a", c.at, c.at+10*ms, history.ResultDone, 5)},
		}
		if c.ok {
			require.NotContains(t, checks(h, options), history.CheckRelease, name)
		} else {
			require.Contains(t, checks(h, options), history.CheckRelease, name)
		}
	}
}

// A stopped process is notified of its loss when it is resumed.
func TestStoppedProcessIsNotLate(t *testing.T) {
	one := hold("a", 0, 900*ms, 905*ms, history.EndingLost)
	one.Noticed = 5100 * ms
	h := history.History{Holds: []history.Hold{one}, Stops: []history.Stop{{From: 100 * ms, To: 5000 * ms}}}
	require.Empty(t, checks(h, options))
	h.Stops[0].Worker = 1
	require.Equal(t, []history.Check{history.CheckLoss}, checks(h, options), "it was another's")
	h.Stops[0] = history.Stop{From: 100 * ms, To: 3000 * ms}
	require.Equal(t, []history.Check{history.CheckLoss}, checks(h, options), "late all the same")

	call := op("acquire", "a", 0, 5000*ms, history.ResultUnknown, 0)
	call.Overrun = 4000 * ms
	h = history.History{Operations: []history.Operation{call}, Stops: []history.Stop{{From: 100 * ms, To: 4900 * ms}}}
	require.Empty(t, checks(h, options))
}
