package check_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// violates tests whether a history violates one check. It ignores the other checks.
func violates(t *testing.T, name string, check history.Check, want bool, h history.History, options check.Limits) {
	t.Helper()
	if want {
		require.Contains(t, checks(h, options), check, name)
	} else {
		require.NotContains(t, checks(h, options), check, name)
	}
}

// A holder trusts its lease for 990 ms, counted from the call of the request: the granted TTL less
// the margin. The patience is 500 ms.
func TestTrust(t *testing.T) {
	grant, renewal := op("acquire", "a", 0, 100*ms, history.ResultDone, 1), op("renew", "a", 300*ms, 400*ms, history.ResultDone, 1)
	late, stray := renewal, renewal
	late.Overrun = ms
	stray.WrongName = "another"
	endless := renewal
	endless.TTL = leasing.Infinite
	look := func(at, remaining time.Duration) history.Write {
		return history.Write{Name: "n", Claim: "a", Token: 1, Call: at, Return: at, Trusted: true, Remaining: remaining, Accepted: true}
	}
	for name, c := range map[string]struct {
		bad        bool
		operations []history.Operation
		write      history.Write
	}{
		"as granted":                       {operations: []history.Operation{grant}, write: look(200*ms, 790*ms)},
		"from the reply":                   {bad: true, operations: []history.Operation{grant}, write: look(200*ms, 791*ms)},
		"after its end":                    {bad: true, operations: []history.Operation{grant}, write: look(991*ms, 0)},
		"a little less":                    {operations: []history.Operation{grant}, write: look(200*ms, 290*ms)},
		"much less":                        {bad: true, operations: []history.Operation{grant}, write: look(200*ms, 289*ms)},
		"as renewed":                       {operations: []history.Operation{grant, renewal}, write: look(500*ms, 790*ms)},
		"before the renewal was answered":  {bad: true, operations: []history.Operation{grant, renewal}, write: look(399*ms, 592*ms)},
		"a renewal that came late may not": {operations: []history.Operation{grant, late}, write: look(500*ms, 490*ms)},
		"or may count":                     {operations: []history.Operation{grant, late}, write: look(500*ms, 790*ms)},
		"another's renewal does not":       {bad: true, operations: []history.Operation{grant, stray}, write: look(500*ms, 790*ms)},
		"just answered, without an end":    {operations: []history.Operation{grant, endless}, write: look(900*ms, 490*ms)},
		"answered long before":             {bad: true, operations: []history.Operation{grant, endless}, write: look(901*ms, 490*ms)},
		"no longer":                        {operations: []history.Operation{grant}, write: history.Write{Name: "n", Claim: "a", Token: 1, Call: 2000 * ms, Return: 2000 * ms, Accepted: true}},
		"for ever":                         {bad: true, operations: []history.Operation{grant}, write: look(200*ms, math.MaxInt64)},
	} {
		violates(t, name, history.CheckTrust, c.bad, history.History{Operations: c.operations, Writes: []history.Write{c.write}}, options)
	}
	given := func(at time.Duration, reason leasing.LostReason) history.History {
		return history.History{Operations: []history.Operation{grant}, Observed: []history.Observation{{Name: "n", Claim: "a", Kind: leasing.EventLost, Reason: reason, At: at, Own: true}}}
	}
	violates(t, "given up in time", history.CheckTrust, false, given(490*ms, leasing.LostExpired), options)
	violates(t, "given up too early", history.CheckTrust, true, given(489*ms, leasing.LostExpired), options)
	violates(t, "taken", history.CheckTrust, false, given(489*ms, leasing.LostTaken), options)
}

func TestTrustOfAHoldIsTheCheckersOwn(t *testing.T) {
	one := hold("a", 100*ms, 0, 0, history.EndingLost)
	h := history.History{Operations: []history.Operation{
		op("acquire", "a", 0, 100*ms, history.ResultDone, 1), op("renew", "a", 300*ms, 400*ms, history.ResultDone, 1), op("renew", "a", 500*ms, 1600*ms, history.ResultDone, 1),
	}, Holds: []history.Hold{one}}
	check.Stopwatch(&h, options)
	require.Equal(t, 1290*ms, h.Holds[0].Until, "the last was over when it came")
}

func TestRelease(t *testing.T) {
	o := op("release", "a", 10*ms, 20*ms, history.ResultDone, 0)
	violates(t, "after the work", history.CheckRelease, false, history.History{Operations: []history.Operation{o}}, options)
	o.Early = true
	violates(t, "under the work", history.CheckRelease, true, history.History{Operations: []history.Operation{o}}, options)
}

// A renewal is due 600 ms after the call of the latest grant, plus the patience.
func TestRenewal(t *testing.T) {
	grant := op("acquire", "a", 0, 10*ms, history.ResultDone, 1)
	renewal := func(at time.Duration) history.Operation { return op("renew", "a", at, at+ms, history.ResultDone, 1) }
	held := hold("a", 10*ms, 2990*ms, 2000*ms, history.EndingGivenUp)
	held.Renews = true
	forever := renewal(0)
	forever.TTL = leasing.Infinite
	forgetful := held
	forgetful.Renews = false
	brief := held
	brief.End = 1099 * ms
	for name, c := range map[string]struct {
		bad        bool
		hold       history.Hold
		operations []history.Operation
	}{
		"in time":           {hold: held, operations: []history.Operation{grant, renewal(600 * ms), renewal(1700 * ms)}},
		"too late":          {bad: true, hold: held, operations: []history.Operation{grant, renewal(1101 * ms)}},
		"the second":        {bad: true, hold: held, operations: []history.Operation{grant, renewal(600 * ms), renewal(1701 * ms)}},
		"never":             {bad: true, hold: held, operations: []history.Operation{grant}},
		"not wanted":        {hold: forgetful, operations: []history.Operation{grant}},
		"given up before":   {hold: brief, operations: []history.Operation{grant}},
		"in that instant":   {hold: held, operations: []history.Operation{grant, forever}},
		"another's is none": {bad: true, hold: held, operations: []history.Operation{grant, op("renew", "b", 500*ms, 501*ms, history.ResultDone, 1)}},
	} {
		violates(t, name, history.CheckRenewal, c.bad, history.History{Operations: c.operations, Holds: []history.Hold{c.hold}}, options)
	}
}

func TestEvents(t *testing.T) {
	const acquired, lost, released = leasing.EventAcquired, leasing.EventLost, leasing.EventReleased
	kinds := func(all ...leasing.EventKind) []leasing.EventKind { return all }
	for name, c := range map[string]struct {
		bad         bool
		ending      history.Ending
		own, others []leasing.EventKind
	}{
		"released":                {ending: history.EndingGivenUp, own: kinds(acquired, released), others: kinds(acquired, released)},
		"lost":                    {ending: history.EndingLost, own: kinds(acquired, lost), others: kinds(acquired, lost)},
		"lost as it was given up": {ending: history.EndingGivenUp, own: kinds(acquired, lost), others: kinds(acquired, lost)},
		"left":                    {ending: history.EndingAbandoned, own: kinds(acquired, lost), others: kinds(acquired, lost)},
		"released, and was lost":  {bad: true, ending: history.EndingLost, own: kinds(acquired, released), others: kinds(acquired, released)},
		"twice":                   {bad: true, ending: history.EndingLost, own: kinds(acquired, lost, lost), others: kinds(acquired, lost)},
		"both":                    {bad: true, ending: history.EndingGivenUp, own: kinds(acquired, lost), others: kinds(acquired, lost, released)},
		"no end":                  {bad: true, ending: history.EndingGivenUp, own: kinds(acquired), others: kinds(acquired, released)},
		"no beginning":            {bad: true, ending: history.EndingGivenUp, own: kinds(acquired, released), others: kinds(released)},
		"the wrong way round":     {bad: true, ending: history.EndingGivenUp, own: kinds(released, acquired), others: kinds(acquired, released)},
		"only the others'":        {bad: true, ending: history.EndingGivenUp, others: kinds(acquired, released)},
	} {
		h := history.History{Closed: 9000 * ms, Holds: []history.Hold{hold("a", 0, 900*ms, 100*ms, c.ending)}}
		for own, observed := range map[bool][]leasing.EventKind{true: c.own, false: c.others} {
			for _, kind := range observed {
				h.Observed = append(h.Observed, history.Observation{Name: "n", Claim: "a", Kind: kind, Own: own})
			}
		}
		violates(t, name, history.CheckEvents, c.bad, h, options)
		h.Killed = []int{0}
		violates(t, name+", and killed", history.CheckEvents, false, h, options)
	}
}

func TestActorOfABreakIsReported(t *testing.T) {
	for actor, bad := range map[string]bool{"an operator": false, "": true, "another": true} {
		reply := op("renew", "a", 50*ms, 60*ms, history.ResultLost, 1)
		reply.Why, reply.By = leasing.LostBroken, "an operator"
		h := history.History{Closed: 9000 * ms, Holds: []history.Hold{hold("a", 0, 60*ms, 100*ms, history.EndingLost)}}
		for _, own := range []bool{true, false} {
			h.Observed = append(h.Observed, history.Observation{Name: "n", Claim: "a", Kind: leasing.EventAcquired, Own: own},
				history.Observation{Name: "n", Claim: "a", Kind: leasing.EventLost, Reason: leasing.LostBroken, By: actor, Own: own})
		}
		violates(t, "without a reply, by "+actor, history.CheckEvents, false, h, options)
		h.Operations = []history.Operation{reply}
		violates(t, "by "+actor, history.CheckEvents, bad, h, options)
	}
}

func TestMetadata(t *testing.T) {
	right := history.Reading{Name: "n", Claim: "a", Token: 1, Call: 10 * ms, Return: 20 * ms, Trusted: true, Holder: "a", HolderToken: 1, Metadata: "m", Shown: "m", Has: "m"}
	with := func(change func(*history.Reading)) history.Reading {
		s := right
		change(&s)
		return s
	}
	ambiguous := op("renew", "a", 5*ms, 9*ms, history.ResultUnknown, 1)
	for name, c := range map[string]struct {
		bad        bool
		reading    history.Reading
		operations []history.Operation
	}{
		"right":                        {reading: right},
		"by the lease":                 {bad: true, reading: with(func(s *history.Reading) { s.Has = "" })},
		"by the backend":               {bad: true, reading: with(func(s *history.Reading) { s.Shown = "old" })},
		"after an ambiguous request":   {reading: with(func(s *history.Reading) { s.Shown = "old" }), operations: []history.Operation{ambiguous}},
		"not known":                    {reading: with(func(s *history.Reading) { s.Metadata, s.Shown = "", "old" })},
		"another holder":               {bad: true, reading: with(func(s *history.Reading) { s.Holder = "b" })},
		"another token":                {bad: true, reading: with(func(s *history.Reading) { s.HolderToken = 2 })},
		"another holder after a break": {reading: with(func(s *history.Reading) { s.Holder = "b" }), operations: []history.Operation{brokenAt(true, 5*ms, 6*ms)}},
		"another holder after the end": {reading: with(func(s *history.Reading) { s.Holder, s.Trusted = "b", false })},
	} {
		violates(t, name, history.CheckMetadata, c.bad, history.History{Operations: c.operations, Readings: []history.Reading{c.reading}}, options)
	}
}

// A free name with a waiter is granted at once if the backend wakes waiters, within 2 s by polling,
// and within 10 s after a fault. The patience is added to each.
func TestLiveness(t *testing.T) {
	grant := func(claim string, at, end time.Duration) []history.Operation {
		return []history.Operation{atBackend(op("acquire", claim, at, at, history.ResultDone, 1)), atBackend(op("release", claim, end, end, history.ResultDone, 0))}
	}
	wait := func(worker int, from, to time.Duration) history.Wait {
		return history.Wait{Worker: worker, Number: 1, Name: "n", From: from, To: to}
	}
	try := wait(1, 50*ms, 5000*ms)
	try.Try = true
	fault := history.Fault{Name: "n", At: 60 * ms}
	for name, c := range map[string]struct {
		bad     bool
		polling bool
		wait    history.Wait
		next    time.Duration // when the name is granted again
		faults  []history.Fault
		last    history.Hold
	}{
		"at once":                   {wait: wait(1, 50*ms, 600*ms), next: 600 * ms},
		"late":                      {bad: true, wait: wait(1, 50*ms, 601*ms), next: 601 * ms},
		"never":                     {bad: true, wait: wait(1, 50*ms, 0), next: 9000 * ms},
		"wanted only now":           {wait: wait(1, 500*ms, 1000*ms), next: 1000 * ms},
		"a try":                     {wait: try, next: 6000 * ms},
		"polling":                   {polling: true, wait: wait(1, 50*ms, 2600*ms), next: 2600 * ms},
		"polling for too long":      {bad: true, polling: true, wait: wait(1, 50*ms, 2601*ms), next: 2601 * ms},
		"after a fault":             {wait: wait(1, 50*ms, 9000*ms), next: 9000 * ms, faults: []history.Fault{fault}},
		"long after a fault":        {bad: true, wait: wait(1, 50*ms, 15000*ms), next: 15000 * ms, faults: []history.Fault{fault}},
		"who had it last":           {wait: wait(1, 110*ms, 1600*ms), next: 1600 * ms, last: history.Hold{Worker: 1, Name: "n", Claim: "a", End: 100 * ms}},
		"who had it last, for long": {bad: true, wait: wait(1, 110*ms, 1700*ms), next: 1700 * ms, last: history.Hold{Worker: 1, Name: "n", Claim: "a", End: 100 * ms}},
	} {
		h := history.History{FaultsEnd: 20_000 * ms, Waits: []history.Wait{c.wait}, Faults: c.faults, Operations: append(grant("a", 0, 100*ms), grant("b", c.next, c.next+ms)...)}
		if c.last.Name != "" {
			h.Holds = []history.Hold{c.last}
		}
		o := options
		o.Pushes = !c.polling
		violates(t, name, history.CheckLiveness, c.bad, h, o)
	}
	overtaken := history.History{Waits: []history.Wait{wait(1, 0, 9000*ms)}}
	for i := range 40 {
		overtaken.Operations = append(overtaken.Operations, grant("x", time.Duration(i)*100*ms, time.Duration(i)*100*ms+99*ms)...)
	}
	o := options
	o.Pushes = true
	violates(t, "overtaken", history.CheckLiveness, true, overtaken, o)
	overtaken.Holds = []history.Hold{{Worker: 1, Name: "n", Claim: "a", End: 0}}
	violates(t, "overtaken by those it has left the name to", history.CheckLiveness, false, overtaken, o)
	overtaken.Holds, overtaken.Faults = nil, []history.Fault{fault}
	violates(t, "overtaken after a fault", history.CheckLiveness, false, overtaken, o)
}

// No wake-up is sent when the lease runs out, at 1010 ms: the waiter must know the end of the
// lease.
func TestLivenessAfterALeaseHasRunOut(t *testing.T) {
	refusal := heldBy("a", "b", 60*ms, 60*ms)
	for name, c := range map[string]struct {
		bad  bool
		to   time.Duration
		more []history.Operation
	}{
		"of one that it knows":               {to: 1510 * ms, more: []history.Operation{refusal}},
		"of one that it knows, late":         {bad: true, to: 1511 * ms, more: []history.Operation{refusal}},
		"of one that another knows":          {to: 1511 * ms, more: []history.Operation{heldBy("a", "another", 60*ms, 60*ms)}},
		"of one that it does not know":       {to: 11510 * ms},
		"of one that it does not know, late": {bad: true, to: 11511 * ms},
		"of one that only the backend saw":   {to: 1511 * ms, more: []history.Operation{atBackend(refusal)}},
	} {
		h := history.History{FaultsEnd: 20_000 * ms, Waits: []history.Wait{{Number: 1, Name: "n", From: 50 * ms, To: c.to}}}
		granted := op("acquire", "b", c.to, c.to, history.ResultDone, 2)
		h.Operations = append(c.more, atBackend(op("acquire", "a", 0, 0, history.ResultDone, 1)), granted, atBackend(granted))
		o := options
		o.Pushes = true
		violates(t, name, history.CheckLiveness, c.bad, h, o)
	}
}

// The rules apply where each operation returns before the next begins.
func TestRules(t *testing.T) {
	const done, lost, released = history.ResultDone, history.ResultLost, history.ResultReleased
	grant, free := op("acquire", "a", 0, 0, done, 5), op("release", "a", 100*ms, 100*ms, done, 0)
	refused := heldBy("a", "b", 50*ms, 50*ms)
	wrong := heldBy("c", "b", 50*ms, 50*ms)
	again, past := op("release", "x", 110*ms, 110*ms, done, 0), op("release", "x", 0, 0, done, 0)
	others := []history.Operation{past, grant, free}
	for i := range 7 {
		others = append(others, op("release", fmt.Sprint("b", i), 105*ms, 105*ms, done, 0))
	}
	ghost := op("acquire", "x", 120*ms, 120*ms, done, 6)
	for name, c := range map[string]struct {
		bad        bool
		operations []history.Operation
	}{
		"a life":                         {operations: []history.Operation{grant, refused, op("renew", "a", 60*ms, 60*ms, done, 5), free, op("acquire", "b", 110*ms, 110*ms, done, 6)}},
		"two holders":                    {bad: true, operations: []history.Operation{grant, op("acquire", "b", 50*ms, 50*ms, done, 6)}},
		"another holder is named":        {bad: true, operations: []history.Operation{grant, wrong}},
		"a token that stays":             {bad: true, operations: []history.Operation{grant, free, op("acquire", "b", 110*ms, 110*ms, done, 5)}},
		"a token that a renewal changes": {bad: true, operations: []history.Operation{grant, op("renew", "a", 60*ms, 60*ms, done, 6)}},
		"a repetition with a new token":  {bad: true, operations: []history.Operation{grant, op("acquire", "a", 60*ms, 60*ms, done, 6)}},
		"a false loss":                   {bad: true, operations: []history.Operation{grant, op("renew", "a", 60*ms, 60*ms, lost, 5)}},
		"a loss":                         {operations: []history.Operation{grant, op("renew", "a", 1000*ms, 1000*ms, lost, 5)}},
		"revived where nobody was":       {operations: []history.Operation{grant, op("renew", "a", 1500*ms, 1500*ms, done, 5)}},
		"held for too long":              {bad: true, operations: []history.Operation{grant, heldBy("a", "b", 1100*ms, 1100*ms)}},
		"a ghost":                        {bad: true, operations: []history.Operation{grant, free, op("acquire", "a", 110*ms, 110*ms, done, 6)}},
		"refused as given up":            {operations: []history.Operation{grant, free, op("acquire", "a", 110*ms, 110*ms, released, 0)}},
		"broken at once":                 {operations: []history.Operation{grant, brokenAt(true, 50*ms, 50*ms), op("acquire", "b", 60*ms, 60*ms, done, 6)}},
		"broken to run out, and taken":   {bad: true, operations: []history.Operation{grant, brokenAt(false, 50*ms, 50*ms), op("acquire", "b", 60*ms, 60*ms, done, 6)}},
		"broken as it may have run out":  {operations: []history.Operation{grant, brokenAt(true, 1000*ms, 1000*ms), op("acquire", "a", 1001*ms, 1001*ms, done, 6)}},
		"broken before it ran out":       {bad: true, operations: []history.Operation{grant, brokenAt(true, 900*ms, 900*ms), op("acquire", "a", 901*ms, 901*ms, done, 6)}},
		"given up, and granted":          {bad: true, operations: []history.Operation{grant, free, again, ghost}},
		"given up before, and granted":   {bad: true, operations: []history.Operation{past, grant, free, again, ghost}},
		"with seven others since":        {bad: true, operations: append(others[:9:9], again, ghost)},
		"with eight others since":        {operations: append(others[:10:10], again, ghost)},
		"a refusal changes nothing":      {operations: []history.Operation{grant, free, op("acquire", "b", 110*ms, 110*ms, released, 0), op("acquire", "c", 120*ms, 120*ms, done, 6)}},
		"broken, and renewed":            {bad: true, operations: []history.Operation{grant, brokenAt(false, 50*ms, 50*ms), op("renew", "a", 60*ms, 60*ms, done, 5)}},
	} {
		h := history.History{Operations: numbered(slices.Clone(c.operations)...)}
		violates(t, name, history.CheckRules, c.bad, h, options)
		for i := range h.Operations {
			h.Operations[i].Ended = 100 // all at the same time
		}
		violates(t, name+", in no certain order", history.CheckRules, false, h, options)
	}
}

func TestHangOfAnAcquire(t *testing.T) {
	wait := func(to, bound time.Duration) history.History {
		return history.History{Closed: 9000 * ms, Waits: []history.Wait{{Worker: 2, Name: "n", From: 10 * ms, To: to, Bound: bound}}}
	}
	violates(t, "in time", history.CheckHang, false, wait(1500*ms, 1000*ms), options)
	violates(t, "late", history.CheckHang, true, wait(1501*ms, 1000*ms), options)
	violates(t, "never", history.CheckHang, true, wait(0, 0), options)
	killed := wait(0, 0)
	killed.Killed = []int{2}
	violates(t, "killed", history.CheckHang, false, killed, options)
	request := op("acquire", "a", 0, 900*ms, history.ResultUnknown, 0)
	request.Overrun = 600 * ms
	heedless := options
	heedless.Heedless = true
	violates(t, "the faults heed no context", history.CheckHang, false, history.History{Operations: []history.Operation{request}}, heedless)
	violates(t, "the backend has to", history.CheckHang, true, history.History{Operations: []history.Operation{atBackend(request)}}, heedless)
}

// A claim that is unused, or whose grant was not reported, is released until the release is answered.
func TestCleanup(t *testing.T) {
	const unknown = history.ResultUnknown
	given, lost := hold("a", 0, 900*ms, 100*ms, history.EndingGivenUp), hold("a", 0, 990*ms, 990*ms, history.EndingLost)
	lost.Reason = leasing.LostExpired
	left := hold("a", 0, 900*ms, 100*ms, history.EndingAbandoned)
	granted := []history.Operation{op("acquire", "a", 0, 0, history.ResultDone, 1), atBackend(op("acquire", "a", 0, 0, history.ResultDone, 1))}
	ghost := []history.Operation{unanswered(op("acquire", "a", 0, 0, unknown, 0)), atBackend(op("acquire", "a", 0, 0, history.ResultDone, 1))}
	unconfirmed := append(granted[:2:2], unanswered(op("renew", "a", 500*ms, 600*ms, unknown, 1)), atBackend(op("renew", "a", 500*ms, 500*ms, history.ResultDone, 1)))
	once, release := op("release", "a", 200*ms, 300*ms, unknown, 0), op("release", "a", 700*ms, 800*ms, unknown, 0)
	late := []history.Operation{ghost[0], atBackend(op("acquire", "a", 5000*ms, 5000*ms, history.ResultDone, 1))}
	for name, c := range map[string]struct {
		bad        bool
		holds      []history.Hold
		operations []history.Operation
	}{
		"released":                             {holds: []history.Hold{given}, operations: append(granted[:2:2], atBackend(op("release", "a", 100*ms, 100*ms, history.ResultDone, 0)))},
		"never released":                       {bad: true, holds: []history.Hold{given}, operations: granted},
		"its end was lost":                     {holds: []history.Hold{lost}, operations: granted},
		"a renewal without a reply":            {bad: true, holds: []history.Hold{lost}, operations: unconfirmed},
		"a grant without a reply":              {bad: true, operations: ghost},
		"which was released without an answer": {operations: append(ghost[:2:2], once, release)},
		"and not again":                        {bad: true, operations: append(ghost[:2:2], once)},
		"delivered after that":                 {operations: append(late[:2:2], release)},
		"delivered late, never released":       {bad: true, operations: late},
		"its manager is gone":                  {holds: []history.Hold{left}, operations: granted},
		"broken":                               {holds: []history.Hold{given}, operations: append(granted[:2:2], brokenAt(true, 50*ms, 50*ms))},
	} {
		h := history.History{FaultsEnd: 20_000 * ms, Holds: c.holds, Operations: c.operations}
		violates(t, name, history.CheckCleanup, c.bad, h, options)
	}
}

// A lease ends at once when the backend reports its loss.
func TestLossByTheBackendsReply(t *testing.T) {
	word := op("renew", "a", 100*ms, 110*ms, history.ResultLost, 1)
	for end, bad := range map[time.Duration]bool{110 * ms: false, 610 * ms: false, 611 * ms: true, 0: true} {
		one := hold("a", 0, 990*ms, end, history.EndingGivenUp)
		violates(t, end.String(), history.CheckLoss, bad, history.History{Operations: []history.Operation{op("acquire", "a", 0, 10*ms, history.ResultDone, 1), word}, Holds: []history.Hold{one}}, options)
	}
}

// A failed renewal is retried within half of the remaining trust.
func TestRenewalIsTriedAgain(t *testing.T) {
	held := hold("a", 10*ms, 4990*ms, 4900*ms, history.EndingGivenUp)
	held.Renews = true
	grant, failed := op("acquire", "a", 0, 10*ms, history.ResultDone, 1), unanswered(op("renew", "a", 3000*ms, 3000*ms, history.ResultUnknown, 1))
	grant.TTL = 5000 * ms // trusted until 4990 ms
	for at, bad := range map[time.Duration]bool{3010 * ms: false, 4495 * ms: false, 4496 * ms: true} {
		again := op("renew", "a", at, at, history.ResultDone, 1)
		again.TTL = grant.TTL
		violates(t, at.String(), history.CheckRenewal, bad, history.History{Operations: []history.Operation{grant, failed, again}, Holds: []history.Hold{held}}, options)
	}
}
