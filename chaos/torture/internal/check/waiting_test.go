package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// waits returns a wait of a worker, and its requests.
func waits(number int, from, to, bound time.Duration, result history.Result, requests ...history.Operation) (history.Wait, []history.Operation) {
	w := history.Wait{Name: "n", Number: number, From: from, To: to, Bound: bound, Result: result, Got: result == history.ResultDone}
	for i := range requests {
		requests[i].Wait = number
	}
	return w, requests
}

func TestWaiting(t *testing.T) {
	const held, done = history.ResultHeld, history.ResultDone
	refusal := func(claim string, call time.Duration) history.Operation { return heldBy("h", claim, call, call) }
	throttled := op("acquire", "a", 100*ms, 100*ms, history.ResultRefused, 0)
	throttled.Pause = 5000 * ms
	first, asked := waits(1, 0, 3000*ms, 3000*ms, held, refusal("a", 0), refusal("a", 2500*ms))
	first.Holder = "h"
	for name, c := range map[string]struct {
		bad        bool
		change     func(h *history.History)
		pushes     bool
		operations []history.Operation
	}{
		"as it should be":   {operations: asked},
		"without a request": {bad: true, operations: []history.Operation{{Name: "n", Wait: 2, Layer: history.LayerClient, Verb: "acquire", Claim: "b", Result: held}}},
		"and it was over when it would have": {operations: []history.Operation{{Name: "n", Wait: 2, Layer: history.LayerClient, Verb: "acquire", Claim: "b", Result: held}}, change: func(h *history.History) {
			h.Waits[0].To += 1000 * ms
		}},
		"without the holder":    {bad: true, operations: asked, change: func(h *history.History) { h.Waits[0].Holder = "" }},
		"as its time was over":  {operations: asked, change: func(h *history.History) { h.Waits[0].Holder, h.Waits[0].Bound = "", 2400*ms }},
		"it left before it did": {operations: []history.Operation{refusal("b", 0)}, change: func(h *history.History) { h.Waits[0].Leaves, h.Operations[0].Wait = true, 2 }},
		"in a pause":            {bad: true, operations: []history.Operation{throttled, refusal("a", 2500*ms)}, change: ofWaitOne},
		"in a pause, woken":     {bad: true, pushes: true, operations: []history.Operation{throttled, refusal("a", 2500*ms)}, change: ofWaitOne},
		"served in turn": {operations: asked, change: func(h *history.History) {
			later, requests := waits(2, 1000*ms, 3100*ms, 5000*ms, done, op("acquire", "b", 3000*ms, 3000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"served out of turn": {bad: true, operations: asked, change: func(h *history.History) {
			later, requests := waits(2, 1000*ms, 2000*ms, 5000*ms, done, op("acquire", "b", 2000*ms, 2000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"whose limit had passed": {operations: asked, change: func(h *history.History) {
			later, requests := waits(2, 1000*ms, 2000*ms, 2000*ms, done, op("acquire", "b", 2000*ms, 2000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"refused by Close": {operations: asked, change: func(h *history.History) {
			h.Answers = []history.Answer{{Verb: "close", Call: 2600 * ms, Return: 3000 * ms}}
		}},
		"although it is closed": {bad: true, operations: asked, change: func(h *history.History) {
			h.Answers = []history.Answer{{Verb: "close", Call: 2400 * ms, Return: 3000 * ms}}
		}},
	} {
		h := history.History{TTL: ttl, FaultsEnd: 9000 * ms, Waits: []history.Wait{first}, Operations: append([]history.Operation(nil), c.operations...)}
		if c.change != nil {
			c.change(&h)
		}
		o := options
		o.Pushes = c.pushes
		violates(t, name, history.CheckWaiting, c.bad, h, o)
	}
}

func ofWaitOne(h *history.History) {
	for i := range h.Operations {
		h.Operations[i].Wait = 1
	}
}

// A wait that goes on after a failure reports the failure.
func TestAFailedAttemptIsReported(t *testing.T) {
	h := history.History{TTL: ttl, Operations: []history.Operation{
		op("acquire", "a", 0, 100*ms, history.ResultUnknown, 0), heldBy("h", "a", 500*ms, 500*ms),
	}}
	require.Contains(t, checks(h, options), history.CheckEvents)
	h.Observed = []history.Observation{{Name: "n", Claim: "a", Kind: leasing.EventAcquireFailed, At: 100 * ms, Times: 1}}
	require.NotContains(t, checks(h, options), history.CheckEvents)
}

func TestListing(t *testing.T) {
	for name, c := range map[string]struct {
		bad     bool
		reading history.Reading
	}{
		"listed":           {reading: history.Reading{AsHeld: 1, AsName: 1}},
		"not listed":       {bad: true, reading: history.Reading{AsHeld: 1}},
		"not as held":      {bad: true, reading: history.Reading{AsName: 1}},
		"listed twice":     {bad: true, reading: history.Reading{AsHeld: 1, AsName: 2}},
		"beside a strange": {bad: true, reading: history.Reading{AsHeld: 1, AsName: 1, Strange: "m"}},
	} {
		c.reading.Name, c.reading.Claim, c.reading.Holder, c.reading.Trusted, c.reading.Listed = "n", "a", "a", true, true
		violates(t, name, history.CheckListing, c.bad, history.History{Readings: []history.Reading{c.reading}}, options)
	}
}

// A break ends the lease that it was meant for, and the holder is notified of the first break.
func TestBreak(t *testing.T) {
	grant := atBackend(op("acquire", "a", 0, 0, history.ResultDone, 5))
	breaks := func(at time.Duration, by string, token, met int64) history.Operation {
		o := atBackend(op("break", "", at, at, history.ResultDone, met))
		o.IfToken, o.By = token, by
		return o
	}
	lossReply := func(by string) history.Operation {
		o := atBackend(op("renew", "a", 300*ms, 300*ms, history.ResultLost, 5))
		o.Why, o.By = leasing.LostBroken, by
		return o
	}
	once, slow := breaks(100*ms, "ops", 5, 5), lossReply("")
	slow.Return = 400 * ms
	endless := atBackend(op("renew", "a", 50*ms, 50*ms, history.ResultDone, 5))
	endless.TTL = leasing.Infinite
	for name, c := range map[string]struct {
		bad  bool
		then []history.Operation
	}{
		"of the one that was meant":    {then: []history.Operation{once, lossReply("ops")}},
		"of another":                   {bad: true, then: []history.Operation{breaks(100*ms, "ops", 4, 5)}},
		"by nobody":                    {bad: true, then: []history.Operation{once, lossReply("")}},
		"by the second":                {bad: true, then: []history.Operation{once, breaks(200*ms, "ops, again", 5, 5), lossReply("ops, again")}},
		"by nobody, as it is given up": {then: []history.Operation{once, slow, atBackend(op("release", "a", 350*ms, 360*ms, history.ResultDone, 0))}},
		"by nobody, before it is":      {bad: true, then: []history.Operation{once, slow, atBackend(op("release", "a", 450*ms, 460*ms, history.ResultDone, 0))}},
		"by nobody, after the grace":   {then: []history.Operation{endless, once, lossReply("")}},
		"and renewed":                  {bad: true, then: []history.Operation{once, atBackend(op("renew", "a", 300*ms, 300*ms, history.ResultDone, 5))}},
		"and acquired again":           {bad: true, then: []history.Operation{once, atBackend(op("acquire", "a", 3000*ms, 3000*ms, history.ResultDone, 6))}},
	} {
		violates(t, name, history.CheckBreak, c.bad, history.History{TTL: ttl, Operations: append([]history.Operation{grant}, c.then...)}, options)
	}
}

// Close reports a release that was not answered.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	h := history.History{TTL: ttl, Operations: []history.Operation{
		op("acquire", "a", 0, 0, history.ResultDone, 5), op("release", "a", 100*ms, 200*ms, history.ResultUnknown, 0),
	}, Answers: []history.Answer{{Verb: "closed", Call: 300 * ms, Return: 400 * ms, Result: history.ResultDone}}}
	require.Contains(t, checks(h, options), history.CheckClose)
	h.Answers[0].Result = history.ResultUnknown
	require.NotContains(t, checks(h, options), history.CheckClose)
	h.Answers[0].Result, h.Operations[1].Result = history.ResultDone, history.ResultDone
	require.NotContains(t, checks(h, options), history.CheckClose)
}

func TestTokensFollowTheClock(t *testing.T) {
	h := history.History{TTL: ttl, Backend: 120_000_000, Operations: []history.Operation{op("acquire", "a", 0, 0, history.ResultDone, 60_000_000)}}
	require.NotContains(t, checks(h, options), history.CheckTokens)
	h.Operations[0].Token--
	require.Contains(t, checks(h, options), history.CheckTokens)
}
