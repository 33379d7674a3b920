package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

func TestOrder(t *testing.T) {
	met := brokenAt(false, 1200*ms, 1200*ms)
	met.Token = 7
	const (
		done, lost, unknown = history.ResultDone, history.ResultLost, history.ResultUnknown
		yes, no             = true, false
	)
	for name, c := range map[string]struct {
		ok         bool
		operations []history.Operation
	}{
		"one after the other": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"at once": {yes, []history.Operation{
			op("release", "a", 20*ms, 60*ms, done, 0), op("acquire", "b", 20*ms, 50*ms, done, 2), op("acquire", "a", 0, 10*ms, done, 1),
		}},
		"two holders": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"after expiry": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 1000*ms, done, 2),
		}},
		"before expiry, but for the drift": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2),
		}},
		"before expiry": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 989*ms, done, 2),
		}},
		"before the expiry of a renewal": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 500*ms, 510*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2),
		}},
		"a renewal revives beside a new holder": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2), op("renew", "a", 1300*ms, 1310*ms, done, 1),
		}},
		// The first release and the ghost's release take effect, but their replies are lost.
		"a ghost is released as its claim was": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, unknown, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), op("release", "a", 160*ms, 170*ms, done, 0),
			heldBy("a", "c", 300*ms, 310*ms), op("release", "a", 400*ms, 410*ms, unknown, 0), op("acquire", "c", 420*ms, 430*ms, done, 4),
			op("release", "a", 500*ms, 510*ms, done, 0),
		}},
		"a ghost that nobody released": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, unknown, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), op("release", "a", 160*ms, 170*ms, done, 0),
			heldBy("a", "c", 300*ms, 310*ms), op("acquire", "c", 420*ms, 430*ms, done, 4), op("release", "a", 500*ms, 510*ms, done, 0),
		}},
		"the lease before the ghost is lost": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0), op("release", "b", 120*ms, 130*ms, done, 0),
			op("acquire", "a", 200*ms, 210*ms, done, 2), op("renew", "a", 220*ms, 230*ms, lost, 1), heldBy("a", "b", 300*ms, 310*ms),
		}},
		"the lease before the ghost is renewed": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0), op("release", "b", 120*ms, 130*ms, done, 0),
			op("acquire", "a", 200*ms, 210*ms, done, 2), op("renew", "a", 220*ms, 230*ms, done, 1),
		}},
		"a claim that waits takes the name three times": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 500*ms, 510*ms, unknown, 0), op("acquire", "a", 900*ms, 910*ms, unknown, 0),
			op("acquire", "a", 3900*ms, 3910*ms, unknown, 0),
			heldBy("a", "b", 600*ms, 610*ms), op("acquire", "b", 1200*ms, 1210*ms, done, 2), op("release", "b", 1220*ms, 1230*ms, done, 0),
			heldBy("a", "c", 1300*ms, 1310*ms), op("acquire", "c", 2400*ms, 2410*ms, done, 4), op("release", "c", 2420*ms, 2430*ms, done, 0),
			heldBy("a", "b", 2500*ms, 2510*ms),
		}},
		// The break hits a claim of which the clients have seen only the request.
		"a break that met another": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "c", 20*ms, 30*ms), op("acquire", "b", 1100*ms, 1110*ms, unknown, 0),
			atBackend(op("acquire", "b", 1105*ms, 1105*ms, done, 7)), met, op("release", "b", 1210*ms, 1220*ms, done, 0), op("acquire", "a", 1300*ms, 1310*ms, done, 8),
		}},
		"a late attempt comes after the release": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0), heldBy("a", "c", 300*ms, 310*ms),
		}},
		"a claim that waits takes the name again, but for the drift": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "a", 100*ms, 110*ms, unknown, 0), heldBy("a", "c", 40*ms, 50*ms),
			op("acquire", "b", 985*ms, 991*ms, done, 2), op("release", "b", 992*ms, 993*ms, done, 0), heldBy("a", "c", 994*ms, 996*ms),
		}},
		"a claim that waits, in any order": {yes, []history.Operation{
			heldBy("a", "c", 1400*ms, 1500*ms), op("acquire", "a", 900*ms, 910*ms, unknown, 0), op("acquire", "a", 0, 10*ms, unknown, 0),
			heldBy("a", "c", 590*ms, 600*ms), op("release", "b", 1010*ms, 1020*ms, done, 0), op("acquire", "b", 990*ms, 1000*ms, done, 2),
		}},
		"three late attempts come after three releases": {yes, []history.Operation{
			op("acquire", "a", 0, 5*ms, unknown, 0), op("acquire", "a", 6*ms, 9*ms, unknown, 0), op("acquire", "a", 10*ms, 15*ms, unknown, 0),
			op("acquire", "a", 20*ms, 30*ms, done, 1), op("release", "a", 100*ms, 110*ms, done, 0),
			op("acquire", "b", 120*ms, 130*ms, done, 2), op("release", "b", 140*ms, 150*ms, done, 0),
			heldBy("a", "c", 200*ms, 210*ms), op("release", "a", 220*ms, 230*ms, done, 0), heldBy("a", "c", 240*ms, 250*ms),
			op("release", "a", 260*ms, 270*ms, done, 0), heldBy("a", "c", 280*ms, 290*ms),
		}},
		"a retry reports the token, near the end": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms), op("acquire", "a", 900*ms, 1000*ms, done, 1), op("acquire", "b", 1890*ms, 1900*ms, done, 2),
		}},
		"held by one who came early, but for the drift": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2), heldBy("b", "c", 980*ms, 990*ms),
		}},
		"held by one who came too early": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 900*ms, 990*ms, done, 2), heldBy("b", "c", 980*ms, 989*ms),
		}},
		"an attempt of before the loss has no effect": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 1010*ms, 1020*ms, done, 2), op("acquire", "a", 1100*ms, 1110*ms, unknown, 0),
			op("release", "a", 1200*ms, 1210*ms, done, 0), op("renew", "b", 1300*ms, 1310*ms, done, 2),
		}},
		"a name that was released is taken by one who is seen only later": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, unknown, 0), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 1020*ms, 1025*ms), op("acquire", "c", 1030*ms, 1040*ms, done, 3),
		}},
		"a name that was not released is not": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 1020*ms, 1025*ms), op("acquire", "c", 1030*ms, 1040*ms, done, 3),
		}},
		"a token that falls": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, done, 4),
		}},
		"a token that falls after one without a reply": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 60*ms, 70*ms), op("acquire", "c", 1100*ms, 1110*ms, done, 4),
		}},
		"a retry reports a token that falls": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 5), op("release", "a", 20*ms, 30*ms, done, 0), op("acquire", "b", 40*ms, 50*ms, unknown, 0),
			heldBy("b", "c", 60*ms, 70*ms), op("acquire", "b", 80*ms, 90*ms, done, 4),
		}},
		"before the expiry of a repetition": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 500*ms, 510*ms, done, 1), op("acquire", "b", 1100*ms, 1200*ms, done, 2),
		}},
		"taken before the loss": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 900*ms, 1000*ms, lost, 1), op("acquire", "b", 905*ms, 985*ms, done, 2),
		}},
		"the one after a broken one renews": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "b", 1000*ms, 1010*ms, done, 2), op("renew", "b", 1020*ms, 1030*ms, done, 2),
		}},
		"an attempt without a TTL": {yes, []history.Operation{
			{Layer: history.LayerClient, Verb: "acquire", Name: "n", Claim: "a", Call: 0, Return: 10 * ms, Result: unknown}, heldBy("a", "b", 0, 10*ms),
		}},
		"held by one who is refused": {yes, []history.Operation{
			heldBy("", "a", 0, 20*ms), heldBy("a", "b", 10*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by one who has been refused": {no, []history.Operation{
			heldBy("", "a", 0, 20*ms), heldBy("a", "b", 21*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by one who will be refused": {no, []history.Operation{
			heldBy("a", "b", 10*ms, 20*ms), heldBy("", "a", 21*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"held by a claim without the reply to its refusal": {yes, []history.Operation{
			op("acquire", "a", 0, 25*ms, unknown, 0), atBackend(heldBy("", "a", 0, 20*ms)), heldBy("a", "b", 10*ms, 30*ms), op("acquire", "c", 40*ms, 50*ms, done, 1),
		}},
		"a retry is blocked by its first attempt": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "a", 20*ms, 30*ms),
		}},
		"a renewal revives where nobody has been": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1300*ms, 1310*ms, done, 1),
		}},
		"a renewal after the release": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), op("renew", "a", 40*ms, 50*ms, done, 1),
		}},
		"a renewal changes the token": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 40*ms, 50*ms, done, 2),
		}},
		"a false loss": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 500*ms, 510*ms, lost, 1),
		}},
		"a true loss": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1),
		}},
		// Where clients watch leases, each client notices the end of a lease on its own.
		"lost, and another is refused because of it": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1), heldBy("a", "b", 1020*ms, 1030*ms), op("acquire", "b", 1040*ms, 1050*ms, done, 2),
		}},
		"lost, and granted again": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1), op("acquire", "a", 1020*ms, 1030*ms, done, 1),
		}},
		"lost, and renewed all the same": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("renew", "a", 1000*ms, 1010*ms, lost, 1), op("renew", "a", 1020*ms, 1030*ms, done, 1),
		}},
		"held by the holder": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), heldBy("a", "b", 20*ms, 30*ms),
		}},
		"held by one who was released": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, done, 0), heldBy("a", "b", 40*ms, 50*ms),
		}},
		"the same claim twice": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 20*ms, 30*ms, done, 1),
		}},
		"the same claim twice with two tokens": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 20*ms, 30*ms, done, 2),
		}},
		"the same claim again after its expiry": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("acquire", "a", 1020*ms, 1030*ms, done, 2),
		}},
		"an acquire of unknown outcome was applied": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms), op("acquire", "c", 1000*ms, 1050*ms, done, 2),
		}},
		"an acquire of unknown outcome was not applied": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "c", 20*ms, 50*ms, done, 2),
		}},
		"an acquire of unknown outcome was applied late": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, unknown, 0), op("acquire", "b", 20*ms, 50*ms, done, 2), op("release", "b", 60*ms, 70*ms, done, 0),
			heldBy("a", "c", 80*ms, 90*ms), op("acquire", "c", 1040*ms, 1100*ms, done, 3),
		}},
		"an acquire of unknown outcome takes a name that is held": {no, []history.Operation{
			op("acquire", "b", 0, 10*ms, done, 2), op("acquire", "a", 20*ms, 30*ms, unknown, 0), heldBy("a", "c", 80*ms, 90*ms),
		}},
		"a release of unknown outcome was applied": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, unknown, 0), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"a release of unknown outcome was not applied": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), op("release", "a", 20*ms, 30*ms, unknown, 0), heldBy("a", "b", 40*ms, 50*ms),
		}},
		"broken at once": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(true, 20*ms, 30*ms), op("acquire", "b", 40*ms, 50*ms, done, 2), op("renew", "a", 60*ms, 70*ms, lost, 1),
		}},
		"broken to run out": {yes, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("renew", "a", 60*ms, 70*ms, lost, 1), op("acquire", "b", 1000*ms, 1010*ms, done, 2),
		}},
		"broken to run out, and taken at once": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "b", 40*ms, 50*ms, done, 2),
		}},
		"broken to run out, and acquired again": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("acquire", "a", 40*ms, 50*ms, done, 1),
		}},
		"broken to run out, and renewed": {no, []history.Operation{
			op("acquire", "a", 0, 10*ms, done, 1), brokenAt(false, 20*ms, 30*ms), op("renew", "a", 40*ms, 50*ms, done, 1),
		}},
	} {
		h := history.History{TTL: ttl, Operations: c.operations}
		if c.ok { // other checks cover whether a manager would send this
			require.NotContains(t, checks(h, options), history.CheckLinearizable, name)
			require.NotContains(t, checks(h, options), history.CheckRules, name)
		} else {
			require.Contains(t, checks(h, options), history.CheckLinearizable, name)
		}
		loose := options
		loose.AssumptionsBroken = true
		require.NotContains(t, checks(h, loose), history.CheckLinearizable, name)
		for i, o := range h.Operations {
			h.Operations[i] = atBackend(o)
		}
		if c.ok {
			require.NotContains(t, checks(h, options), history.CheckLinearizable, "%s, as the backend saw it", name)
		} else {
			require.Contains(t, checks(h, options), history.CheckLinearizable, "%s, as the backend saw it", name)
		}
	}
}

// The copy of an acquire may be answered after its lease has run out and other claims have held the name.
func TestOrderOfALateCopy(t *testing.T) {
	late := atBackend(op("acquire", "a", 20*ms, 3030*ms, history.ResultDone, 3))
	for _, c := range []struct {
		what string
		bad  bool
		wait int
	}{{"a copy", false, 0}, {"the manager's own", true, 1}} {
		late.Wait = c.wait
		h := history.History{Operations: []history.Operation{
			op("acquire", "a", 0, 10*ms, history.ResultDone, 1), late,
			op("acquire", "b", 3000*ms, 3010*ms, history.ResultDone, 2), op("release", "b", 3010*ms, 3020*ms, history.ResultDone, 0),
			heldBy("a", "c", 3040*ms, 3050*ms),
		}}
		violates(t, c.what, history.CheckLinearizable, c.bad, h, options)
	}
}

// A lease that an unanswered renewal has made infinite lasts for the grace after a break, which may be less
// than its remaining time.
func TestOrderOfAnInfiniteLeaseThatIsBroken(t *testing.T) {
	grant, renewal := op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("renew", "a", 20*ms, 200*ms, history.ResultUnknown, 1)
	met := brokenAt(false, 100*ms, 100*ms)
	met.Token = 1
	for _, c := range []struct {
		what string
		bad  bool
		ttl  time.Duration
		met  []history.Operation
	}{{"broken", false, leasing.Infinite, []history.Operation{met}}, {"finite", true, ttl, []history.Operation{met}}, {"not broken", true, leasing.Infinite, nil}} {
		renewal.TTL = c.ttl
		h := history.History{Operations: append([]history.Operation{
			grant, atBackend(grant), renewal, op("acquire", "b", 300*ms, 310*ms, history.ResultDone, 2),
		}, c.met...)}
		violates(t, c.what, history.CheckLinearizable, c.bad, h, options)
	}
}

// The second of two equal requests may be refused because the lease was broken in between, although
// the first request was granted. The backend answers both.
func TestOrderOfARequestThatWasAppliedTwice(t *testing.T) {
	twice := op("acquire", "a", 0, 30*ms, history.ResultReleased, 0)
	h := history.History{Operations: []history.Operation{twice, brokenAt(false, 10*ms, 10*ms), heldBy("a", "b", 40*ms, 50*ms)}}
	violates(t, "as the client saw it", history.CheckLinearizable, false, h, options)
	for i, o := range h.Operations {
		h.Operations[i] = atBackend(o)
	}
	violates(t, "as the backend saw it", history.CheckLinearizable, true, h, options)
}

// A break may arrive after the lease has run out. The name's last holder may then hold the name again, by
// an acquire that is in flight.
func TestOrderOfABreakWithoutAHolder(t *testing.T) {
	broken := brokenAt(false, 1200*ms, 1200*ms)
	again := op("acquire", "a", 1100*ms, 1200*ms, history.ResultDone, 5)
	h := history.History{Operations: []history.Operation{
		unanswered(op("acquire", "a", 0, 100*ms, history.ResultUnknown, 0)), heldBy("a", "b", 50*ms, 60*ms), again, broken, op("renew", "a", 1300*ms, 1310*ms, history.ResultDone, 5),
	}}
	violates(t, "of the lease before", history.CheckLinearizable, true, h, options)
	h.Operations[3].NoHolder = true
	violates(t, "of none", history.CheckLinearizable, false, h, options)
}

// If no order explains a history, the violation shows the end of the longest partial order.
func TestOrderThatEndsSaysWhatDoesNotFit(t *testing.T) {
	h := history.History{Operations: []history.Operation{
		op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("release", "a", 20*ms, 30*ms, history.ResultDone, 0), op("acquire", "b", 40*ms, 50*ms, history.ResultDone, 2),
		op("acquire", "c", 60*ms, 70*ms, history.ResultDone, 3), op("release", "c", 80*ms, 90*ms, history.ResultDone, 0), heldBy("d", "e", 100*ms, 110*ms),
	}}
	found, _ := check.Verify(&h, options)
	require.Len(t, found, 1)
	require.Equal(t, 70*ms, found[0].At)
	require.Equal(t, "linearizable: n at 0.070s: no order explains what the client saw: acquire of claim c by worker 0 (0.060s to 0.070s): done, token 3 "+
		"does not fit where claim b holds the name with token 2 until 1.030s at least", found[0].String())
}

func TestSearchThatIsTooLongIsUndecided(t *testing.T) {
	h := history.History{Operations: []history.Operation{op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("acquire", "b", 40*ms, 50*ms, history.ResultDone, 2)}}
	short := options
	short.SearchSteps = 1
	found, undecided := check.Verify(&h, short)
	require.Empty(t, found)
	require.Equal(t, []string{"n (client)"}, undecided)
}

// numbered returns operations at the backend's layer, one after the other.
func numbered(all ...history.Operation) []history.Operation {
	for i := range all {
		all[i].Layer, all[i].Begun, all[i].Ended = history.LayerBackend, 2*i+1, 2*i+2
	}
	return all
}

// A claim that repeats its acquire while one of Redlock's servers is unreachable may get a later token, which its holder may not
// have received.
func TestVotesMayRaiseTheTokenOfAClaim(t *testing.T) {
	h := history.History{TTL: ttl, Operations: numbered(
		op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("acquire", "a", 20*ms, 30*ms, history.ResultDone, 2),
		op("renew", "a", 40*ms, 50*ms, history.ResultDone, 1),
	)}
	votes := options
	votes.Votes = true
	require.Empty(t, checks(h, votes))
	require.Contains(t, checks(h, options), history.CheckLinearizable)
	h.Operations = numbered(h.Operations[1], op("acquire", "a", 40*ms, 50*ms, history.ResultDone, 1))
	require.Contains(t, checks(h, votes), history.CheckLinearizable, "an earlier one is none of its own")
	h.Operations = numbered(op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("acquire", "a", 20*ms, 30*ms, history.ResultDone, 2), op("renew", "a", 40*ms, 50*ms, history.ResultDone, 3))
	require.Contains(t, checks(h, votes), history.CheckLinearizable, "nor one that it never had")

	reading := history.Reading{Name: "n", Claim: "a", Token: 1, Holder: "a", HolderToken: 2, Trusted: true}
	violates(t, "a later token", history.CheckMetadata, false, history.History{Readings: []history.Reading{reading}}, votes)
	violates(t, "a later token of one server", history.CheckMetadata, true, history.History{Readings: []history.Reading{reading}}, options)
	reading.Token = 3
	violates(t, "an earlier token", history.CheckMetadata, true, history.History{Readings: []history.Reading{reading}}, votes)
}

// A majority ends with its earliest vote. That vote may have been given before another claim released the other votes.
func TestVotesMayBeGivenLongBeforeAMajority(t *testing.T) {
	h := history.History{TTL: ttl, Operations: []history.Operation{
		op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("acquire", "b", 20*ms, 520*ms, history.ResultDone, 2), op("release", "a", 500*ms, 510*ms, history.ResultDone, 0),
		op("acquire", "c", 1030*ms, 1040*ms, history.ResultDone, 3),
	}}
	votes := options
	votes.Votes = true
	require.NotContains(t, checks(h, votes), history.CheckLinearizable)
	require.Contains(t, checks(h, options), history.CheckLinearizable)
	h.Operations[3].Call, h.Operations[3].Return = 900*ms, 910*ms
	require.Contains(t, checks(h, votes), history.CheckLinearizable, "before the first may have ended")
}

// Redlock takes back votes that came too late, even if other clients have seen these votes. It does
// not take back a lease whose grant was answered.
func TestVotesMayBeTakenBack(t *testing.T) {
	observed := []history.Operation{
		unanswered(op("acquire", "a", 0, 10*ms, history.ResultUnknown, 0)), heldBy("a", "b", 20*ms, 30*ms),
		op("acquire", "b", 40*ms, 50*ms, history.ResultDone, 2),
	}
	h := history.History{TTL: ttl, Operations: observed}
	require.Contains(t, checks(h, options), history.CheckLinearizable)
	votes := options
	votes.Votes = true
	require.NotContains(t, checks(h, votes), history.CheckLinearizable)
	observed[0] = op("acquire", "a", 0, 10*ms, history.ResultDone, 1)
	require.Contains(t, checks(h, votes), history.CheckLinearizable)
}
