package check

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// rules replays the backend's record of the name with the rules that providers share, where the
// order of operations is certain: from a grant on, for as long as each operation had returned
// before the next began. The rules must produce each answer, by the fastest clock or by the
// slowest clock.
func (n *nameHistory) rules() {
	seen := slices.DeleteFunc(seenBy(n.operations, history.LayerBackend), func(o history.Operation) bool { return o.Begun == 0 })
	slices.SortFunc(seen, func(a, b history.Operation) int { return a.Begun - b.Begun })
	var r *replay
	ended, before := 0, map[string]bool{} // of the earlier operations: their end, and the claims that may have been granted
	for i := range seen {
		o := &seen[i]
		alone := o.Begun > ended && (i+1 == len(seen) || seen[i+1].Begun > o.Ended) && o.Ended > 0 && o.Result != history.ResultUnknown
		ended = max(ended, o.Ended)
		switch {
		case !alone:
			r = nil
		case r == nil && o.Granted() && !before[o.Claim]: // otherwise the lease may last longer
			r = &replay{n: n, began: o.Begun, record: providerkit.Record{Name: n.name, Token: o.Token, ID: o.Claim, TTL: o.TTL}}
			r.extend(o)
		case r == nil || o.Result == history.ResultRefused || o.Result == history.ResultHeld && o.Holder == "": // a backend may reserve a free name for a waiter
		case n.Votes && o.Granted() && o.Claim == r.record.ID && o.Token > r.record.Token: // see Limits.Votes
			r = nil
		default:
			next := r.candidates(o)
			if len(next) == 0 {
				n.violation(o.Return, "%s, which the rules do not allow where claim %q holds the name with token %d until %s", o, r.record.ID, r.record.Token, history.Seconds(r.latest))
			}
			if len(next) != 1 {
				r = nil
				break
			}
			r.advance(o, next[0])
		}
		before[o.Claim] = before[o.Claim] || o.Verb == "acquire" && (o.Result == history.ResultDone || o.Result == history.ResultUnknown)
	}
}

// replay is the state of a name according to the rules.
type replay struct {
	n      *nameHistory
	began  int // Begun of the grant from which the order is certain
	record providerkit.Record
	// The lease runs out between these two times.
	soonest, latest time.Duration
}

func (r *replay) extend(o *history.Operation) {
	r.soonest, r.latest = after(o.Call, o.TTL, r.n.Margin(o.TTL)), r.n.latestEnd(o)
}

// candidates returns the records that an operation may have left, if the rules produce the
// backend's answer. There may be two if it is uncertain whether the lease had run out.
func (r *replay) candidates(o *history.Operation) (all []providerkit.Record) {
	for _, left := range []time.Duration{r.latest - o.Call, r.soonest - o.Return} {
		next := r.record.Clone()
		next.Now = time.Unix(0, 0).Add(o.Return)
		if next.Left = left; r.latest == leasing.Infinite {
			next.Left = leasing.Infinite
		}
		before := next.ID
		err := step(&next, o)
		taken := next.Token != r.record.Token
		switch {
		case history.ResultOf(err) != o.Result && !r.allows(o, err):
			continue
		case o.Result == history.ResultHeld && o.Holder != "" && o.Holder != before:
			continue
		case o.Extends() && err == nil && (taken && o.Token <= r.record.Token || !taken && o.Token != r.record.Token):
			continue
		case o.Extends():
			next.ID, next.Token, next.Breaking = o.Claim, o.Token, false
		case o.Result == history.ResultReleased:
			next = r.record // even if the rules would have granted the claim
		}
		same := func(other providerkit.Record) bool {
			return other.ID == next.ID && other.Breaking == next.Breaking && slices.Equal(other.Ended, next.Ended)
		}
		if !slices.ContainsFunc(all, same) {
			all = append(all, next)
		}
	}
	return all
}

// advance continues from the record that an operation has left.
func (r *replay) advance(o *history.Operation, record providerkit.Record) {
	soonest, latest, again := r.soonest, r.latest, o.Verb == "acquire" && record.Token == r.record.Token
	r.record = record
	switch {
	case o.Extends() && again: // an acquire by the holder never shortens its lease
		r.extend(o)
		r.soonest, r.latest = max(r.soonest, soonest), max(r.latest, latest)
	case o.Extends():
		r.extend(o)
	case o.Verb == "break" && !o.Immediate && r.latest == leasing.Infinite:
		r.soonest, r.latest = o.Call, leasing.Infinite-1 // after the grace
	}
}

// allows reports whether a provider may give an answer that differs from that of the rules. A provider may
// renew an expired lease if no other claim has acquired the name since. It may have forgotten all but the
// last eight ended IDs, or remember more. An ID that is released again may keep its place among the ended
// IDs, or take another place.
func (r *replay) allows(o *history.Operation, err error) bool {
	switch {
	case o.Verb == "renew" && o.Result == history.ResultDone:
		return r.record.ID == o.Claim && r.record.Token == o.Token && !r.record.Breaking
	case o.Result == history.ResultReleased:
		return true
	case history.ResultOf(err) == history.ResultReleased:
		seen := seenBy(r.n.operations, history.LayerBackend)
		first := firstRelease(r.n.claims[o.Claim].backendOps, o)
		for i, before := range seen {
			if before.Verb == "break" && (first == nil || before.Call < first.Call) {
				first = &seen[i]
			}
		}
		return first != nil && r.n.mayForget(seen, first, o)
	}
	return false
}

func step(r *providerkit.Record, o *history.Operation) error {
	switch o.Verb {
	case "acquire":
		return r.Acquire(abstractions.AcquireRequest{Name: o.Name, ID: o.Claim, TTL: o.TTL}).Err
	case "renew":
		return r.Renew(abstractions.RenewRequest{Name: o.Name, ID: o.Claim, Token: o.Token, TTL: o.TTL}).Err
	case "release":
		return r.Release(abstractions.ReleaseRequest{Name: o.Name, ID: o.Claim}).Err
	}
	_, c := r.Break(abstractions.BreakRequest{Name: o.Name, Immediate: o.Immediate, Grace: time.Second})
	return c.Err
}
