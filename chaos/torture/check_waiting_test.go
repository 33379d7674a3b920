package torture_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// waits returns a wait of a worker, and its requests.
func waits(number int, from, to, bound time.Duration, result torture.Result, requests ...torture.Operation) (torture.Wait, []torture.Operation) {
	w := torture.Wait{Name: "n", Number: number, From: from, To: to, Bound: bound, Result: result, Got: result == torture.ResultDone}
	for i := range requests {
		requests[i].Wait = number
	}
	return w, requests
}

func TestWaiting(t *testing.T) {
	const held, done = torture.ResultHeld, torture.ResultDone
	refusal := func(claim string, call time.Duration) torture.Operation { return heldBy("h", claim, call, call) }
	throttled := op("acquire", "a", 100*ms, 100*ms, torture.ResultRefused, 0)
	throttled.Pause = 5000 * ms
	first, asked := waits(1, 0, 3000*ms, 3000*ms, held, refusal("a", 0), refusal("a", 2500*ms))
	first.Holder = "h"
	for name, c := range map[string]struct {
		bad        bool
		change     func(h *torture.History)
		pushes     bool
		operations []torture.Operation
	}{
		"as it should be":   {operations: asked},
		"without a request": {bad: true, operations: []torture.Operation{{Name: "n", Wait: 2, Layer: torture.LayerClient, Verb: "acquire", Claim: "b", Result: held}}},
		"and it was over when it would have": {operations: []torture.Operation{{Name: "n", Wait: 2, Layer: torture.LayerClient, Verb: "acquire", Claim: "b", Result: held}}, change: func(h *torture.History) {
			h.Waits[0].To += 1000 * ms
		}},
		"not told who":          {bad: true, operations: asked, change: func(h *torture.History) { h.Waits[0].Holder = "" }},
		"as its time was over":  {operations: asked, change: func(h *torture.History) { h.Waits[0].Holder, h.Waits[0].Bound = "", 2400*ms }},
		"it left before it did": {operations: []torture.Operation{refusal("b", 0)}, change: func(h *torture.History) { h.Waits[0].Leaves, h.Operations[0].Wait = true, 2 }},
		"in a pause":            {bad: true, operations: []torture.Operation{throttled, refusal("a", 2500*ms)}, change: ofWaitOne},
		"in a pause, woken":     {bad: true, pushes: true, operations: []torture.Operation{throttled, refusal("a", 2500*ms)}, change: ofWaitOne},
		"served in turn": {operations: asked, change: func(h *torture.History) {
			later, requests := waits(2, 1000*ms, 3100*ms, 5000*ms, done, op("acquire", "b", 3000*ms, 3000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"served out of turn": {bad: true, operations: asked, change: func(h *torture.History) {
			later, requests := waits(2, 1000*ms, 2000*ms, 5000*ms, done, op("acquire", "b", 2000*ms, 2000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"whose limit had passed": {operations: asked, change: func(h *torture.History) {
			later, requests := waits(2, 1000*ms, 2000*ms, 2000*ms, done, op("acquire", "b", 2000*ms, 2000*ms, done, 5))
			h.Waits, h.Operations = append(h.Waits, later), append(h.Operations, requests...)
		}},
		"refused by Close": {operations: asked, change: func(h *torture.History) {
			h.Words = []torture.Word{{Verb: "close", Call: 2600 * ms, Return: 3000 * ms}}
		}},
		"although it is closed": {bad: true, operations: asked, change: func(h *torture.History) {
			h.Words = []torture.Word{{Verb: "close", Call: 2400 * ms, Return: 3000 * ms}}
		}},
	} {
		h := torture.History{TTL: ttl, FaultsEnd: 9000 * ms, Waits: []torture.Wait{first}, Operations: append([]torture.Operation(nil), c.operations...)}
		if c.change != nil {
			c.change(&h)
		}
		o := options
		o.Pushes = c.pushes
		violates(t, name, torture.CheckWaiting, c.bad, h, o)
	}
}

func ofWaitOne(h *torture.History) {
	for i := range h.Operations {
		h.Operations[i].Wait = 1
	}
}

// A wait that goes on after a failure reports the failure.
func TestAFailedAttemptIsTold(t *testing.T) {
	h := torture.History{TTL: ttl, Operations: []torture.Operation{
		op("acquire", "a", 0, 100*ms, torture.ResultUnknown, 0), heldBy("h", "a", 500*ms, 500*ms),
	}}
	require.Contains(t, checks(h, options), torture.CheckEvents)
	h.Notices = []torture.Notice{{Name: "n", Claim: "a", Kind: leasing.EventAcquireFailed, At: 100 * ms, Times: 1}}
	require.NotContains(t, checks(h, options), torture.CheckEvents)
}

func TestListing(t *testing.T) {
	for name, c := range map[string]struct {
		bad   bool
		sight torture.Sight
	}{
		"listed":           {sight: torture.Sight{AsHeld: 1, AsName: 1}},
		"not listed":       {bad: true, sight: torture.Sight{AsHeld: 1}},
		"not as held":      {bad: true, sight: torture.Sight{AsName: 1}},
		"listed twice":     {bad: true, sight: torture.Sight{AsHeld: 1, AsName: 2}},
		"beside a strange": {bad: true, sight: torture.Sight{AsHeld: 1, AsName: 1, Strange: "m"}},
	} {
		c.sight.Name, c.sight.Claim, c.sight.Holder, c.sight.Trusted, c.sight.Listed = "n", "a", "a", true, true
		violates(t, name, torture.CheckListing, c.bad, torture.History{Sights: []torture.Sight{c.sight}}, options)
	}
}

// A break ends the lease that it was meant for, and the holder learns of the first break.
func TestBreak(t *testing.T) {
	grant := below(op("acquire", "a", 0, 0, torture.ResultDone, 5))
	breaks := func(at time.Duration, by string, token, met int64) torture.Operation {
		o := below(op("break", "", at, at, torture.ResultDone, met))
		o.IfToken, o.By = token, by
		return o
	}
	told := func(by string) torture.Operation {
		o := below(op("renew", "a", 300*ms, 300*ms, torture.ResultLost, 5))
		o.Why, o.By = leasing.LostBroken, by
		return o
	}
	once, slow := breaks(100*ms, "ops", 5, 5), told("")
	slow.Return = 400 * ms
	endless := below(op("renew", "a", 50*ms, 50*ms, torture.ResultDone, 5))
	endless.TTL = leasing.Infinite
	for name, c := range map[string]struct {
		bad  bool
		then []torture.Operation
	}{
		"of the one that was meant":    {then: []torture.Operation{once, told("ops")}},
		"of another":                   {bad: true, then: []torture.Operation{breaks(100*ms, "ops", 4, 5)}},
		"by nobody":                    {bad: true, then: []torture.Operation{once, told("")}},
		"by the second":                {bad: true, then: []torture.Operation{once, breaks(200*ms, "ops, again", 5, 5), told("ops, again")}},
		"by nobody, as it is given up": {then: []torture.Operation{once, slow, below(op("release", "a", 350*ms, 360*ms, torture.ResultDone, 0))}},
		"by nobody, before it is":      {bad: true, then: []torture.Operation{once, slow, below(op("release", "a", 450*ms, 460*ms, torture.ResultDone, 0))}},
		"by nobody, after the grace":   {then: []torture.Operation{endless, once, told("")}},
		"and renewed":                  {bad: true, then: []torture.Operation{once, below(op("renew", "a", 300*ms, 300*ms, torture.ResultDone, 5))}},
		"and acquired again":           {bad: true, then: []torture.Operation{once, below(op("acquire", "a", 3000*ms, 3000*ms, torture.ResultDone, 6))}},
	} {
		violates(t, name, torture.CheckBreak, c.bad, torture.History{TTL: ttl, Operations: append([]torture.Operation{grant}, c.then...)}, options)
	}
}

// Close reports a release that was not answered.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	h := torture.History{TTL: ttl, Operations: []torture.Operation{
		op("acquire", "a", 0, 0, torture.ResultDone, 5), op("release", "a", 100*ms, 200*ms, torture.ResultUnknown, 0),
	}, Words: []torture.Word{{Verb: "closed", Call: 300 * ms, Return: 400 * ms, Result: torture.ResultDone}}}
	require.Contains(t, checks(h, options), torture.CheckClose)
	h.Words[0].Result = torture.ResultUnknown
	require.NotContains(t, checks(h, options), torture.CheckClose)
	h.Words[0].Result, h.Operations[1].Result = torture.ResultDone, torture.ResultDone
	require.NotContains(t, checks(h, options), torture.CheckClose)
}

// Tokens follow the backend's clock.
func TestTokensFollowTheClock(t *testing.T) {
	h := torture.History{TTL: ttl, Backend: 120_000_000, Operations: []torture.Operation{op("acquire", "a", 0, 0, torture.ResultDone, 60_000_000)}}
	require.NotContains(t, checks(h, options), torture.CheckTokens)
	h.Operations[0].Token--
	require.Contains(t, checks(h, options), torture.CheckTokens)
}
