package providerkit

import (
	"fmt"
	"maps"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Change is the result of a rule for a record.
type Change struct {
	// Err is the answer to the caller, whether or not there is something to write.
	Err error
	// Write says that the record changed.
	Write bool
	// Deadline says that the end of the lease changed as well: the lease ends Record.Left after the
	// write. Otherwise the stored deadline stays unchanged.
	Deadline bool
	// Wake says that waiters should try to acquire the name.
	Wake bool
	// Expired and Note are for a history, in this order; a Note without a Kind is not an entry.
	Expired, Note Note
}

// Note is an entry for a history, before a fingerprint replaces the claim's ID.
type Note struct {
	Time          time.Time
	Kind          abstractions.HistoryKind
	ID, Owner     string
	Token         int64
	Actor, Reason string
}

// Entry returns the note as a history records it, with a fingerprint in place of the ID.
func (n *Note) Entry() abstractions.HistoryEntry {
	return abstractions.HistoryEntry{
		Time: n.Time, Kind: n.Kind, Fingerprint: abstractions.FingerprintOf(n.ID), Owner: n.Owner, Token: n.Token, Actor: n.Actor, Reason: n.Reason,
	}
}

// Acquire gives a free name to the claim, and extends the lease if the claim already holds the
// name. A repeated request never shortens the lease and changes nothing else, since it may be
// a late copy that arrives after a renewal with a longer TTL, or with other metadata.
func (r *Record) Acquire(req abstractions.AcquireRequest) Change {
	if r.ended(req.ID) {
		return Change{Err: abstractions.ErrReleased}
	}
	if !r.Held() {
		return r.take(req)
	}
	if r.ID != req.ID {
		return r.refuse()
	}
	if req.TTL <= r.Left-r.Slack {
		return Change{}
	}
	return r.extend(max(req.TTL, min(r.TTL, r.Left)))
}

// take gives a free name to the claim, under a new fencing token.
func (r *Record) take(req abstractions.AcquireRequest) Change {
	token := abstractions.NextToken(max(r.Token, r.Floor), r.Now)
	if token > abstractions.MaxToken {
		return Change{Err: fmt.Errorf("%w: no fencing token is left after %d, which did not come from a clock: replace it with the latest token of a holder",
			abstractions.ErrNotSetUp, max(r.Token, r.Floor, r.Now.UnixMicro()))}
	}
	c := Change{Write: true, Deadline: true}
	r.RunOut(&c)
	r.Token, r.ID, r.Owner, r.TTL = token, req.ID, req.Owner, req.TTL
	r.setMetadata(req.Metadata)
	r.AcquiredAt, r.Left, r.Unsettled = r.Now, req.TTL, false
	r.note(&c.Note, abstractions.HistoryAcquired)
	return c
}

// RunOut ends the lease of a holder whose time is over, if the record has a holder. The
// ID of a broken claim stays refused.
func (r *Record) RunOut(c *Change) {
	if r.ID == "" {
		return
	}
	if r.Breaking {
		r.end(r.ID, true)
	} else {
		r.note(&c.Expired, abstractions.HistoryExpired)
		c.Expired.Time = r.Now.Add(r.Left)
	}
	r.free()
}

// refuse returns the error for a name that another claim holds. If the record is
// Unsettled, the change rewrites the deadline by the present clock.
func (r *Record) refuse() Change {
	held := &abstractions.HeldError{Holder: r.Show()}
	if r.Now.IsZero() && r.Left != abstractions.Infinite {
		held.RetryAfter = r.Left
	}
	c := Change{Err: held, Write: r.Unsettled, Deadline: r.Unsettled}
	r.Unsettled = false
	return c
}

func (r *Record) extend(ttl time.Duration) Change {
	r.TTL, r.Left, r.Unsettled = ttl, ttl, false
	return Change{Write: true, Deadline: true}
}

// Renew extends a claim that holds the name. An expired claim is lost, even if no
// other claim has taken the name since.
func (r *Record) Renew(req abstractions.RenewRequest) Change {
	if reason := r.lost(req.ID, req.Token); reason != "" {
		lost := &abstractions.LostError{Reason: reason}
		if r.Breaking && r.ID == req.ID {
			lost.BrokenBy, lost.BreakReason = r.BrokenBy, r.BreakReason
		}
		return Change{Err: lost}
	}
	c := r.extend(req.TTL)
	if req.Metadata != nil {
		r.setMetadata(req.Metadata)
	}
	r.note(&c.Note, abstractions.HistoryRenewed)
	return c
}

// lost returns the reason why a claim can't be renewed, or "" for a claim that can be renewed.
func (r *Record) lost(id string, token int64) abstractions.LostReason {
	known, broken := r.Ended.Find(id)
	switch {
	case broken, r.Breaking && r.ID == id:
		return abstractions.LostBroken
	case known:
		return abstractions.LostGone
	case r.ID == id && r.Token == token:
		if r.Held() {
			return ""
		}
		return abstractions.LostExpired
	case r.Token > token:
		return abstractions.LostTaken
	default: // the backend has lost a claim that it granted
		return abstractions.LostGone
	}
}

// Release frees the name if the claim holds it, and refuses the ID from then on,
// even for a name that was never used, since the acquire may still be in flight.
func (r *Record) Release(req abstractions.ReleaseRequest) Change {
	if r.ID == req.ID {
		return r.releaseHolder()
	}
	if known, _ := r.Ended.Find(req.ID); known {
		return Change{}
	}
	r.end(req.ID, false)
	return Change{Write: true}
}

// releaseHolder ends the claim of the latest holder.
func (r *Record) releaseHolder() Change {
	c := Change{Write: true, Deadline: true}
	if r.Held() {
		c.Wake = true
		r.note(&c.Note, abstractions.HistoryReleased)
	} else if !r.Breaking {
		r.note(&c.Expired, abstractions.HistoryExpired)
		c.Expired.Time = r.Now.Add(r.Left)
	}
	if r.Breaking {
		r.end(r.ID, true)
	} else { // the latest holder's ID is not in the list yet
		r.Ended, r.IdleSince = r.Ended.add(r.ID, false, r.Now), r.Now
	}
	r.free()
	return c
}

// Break ends the present lease of any holder. An immediate break frees the name;
// otherwise the lease runs out, and an infinite lease ends after the grace.
func (r *Record) Break(req abstractions.BreakRequest) (abstractions.BreakResult, Change) {
	if req.IfToken != 0 && req.IfToken != r.Token {
		err := fmt.Errorf("%w: the break is for token %d, the latest token is %d", abstractions.ErrStale, req.IfToken, r.Token)
		return abstractions.BreakResult{}, Change{Err: err}
	}
	if r.Held() && r.ID == "" {
		err := fmt.Errorf("%w: the present lease has no record, and so no token", abstractions.ErrStale)
		return abstractions.BreakResult{WasHeld: true, Token: r.Token}, Change{Err: err}
	}
	result := abstractions.BreakResult{WasHeld: r.Held(), Token: r.Token}
	if !result.WasHeld {
		return result, Change{}
	}
	if r.Breaking && !req.Immediate { // the first break has set the actor and the reason
		result.Remaining = r.Left
		return result, Change{}
	}
	c := Change{Write: true, Deadline: r.Unsettled}
	r.note(&c.Note, abstractions.HistoryBroken)
	c.Note.Actor, c.Note.Reason = req.Actor, req.Reason
	r.end(r.ID, true)
	if req.Immediate {
		r.free()
		c.Deadline, c.Wake = true, true
		return result, c
	}
	if r.Left == abstractions.Infinite { // waiters must learn that the lease now ends
		r.Left = max(req.Grace, time.Millisecond)
		c.Deadline, c.Wake = true, true
	}
	r.Breaking, r.BrokenBy, r.BreakReason, r.Unsettled = true, req.Actor, req.Reason, false
	result.Remaining = r.Left
	return result, c
}

// ended reports whether a claim can't hold the name any more. A lease that runs out
// after a Break counts as ended, although its ID may have been forgotten.
func (r *Record) ended(id string) bool {
	known, _ := r.Ended.Find(id)
	return known || r.Breaking && r.ID == id
}

// end refuses an ID from now on.
func (r *Record) end(id string, broken bool) {
	r.Ended, r.IdleSince = r.Ended.Add(id, broken, r.Now), r.Now
}

func (r *Record) free() {
	r.ID, r.Owner, r.TTL, r.Left, r.Metadata, r.AcquiredAt = "", "", 0, 0, nil, time.Time{}
	r.Breaking, r.BrokenBy, r.BreakReason, r.Unsettled = false, "", "", false
}

func (r *Record) setMetadata(metadata map[string]string) {
	r.Metadata = nil
	if len(metadata) > 0 {
		r.Metadata = maps.Clone(metadata)
	}
}

func (r *Record) note(note *Note, kind abstractions.HistoryKind) {
	*note = Note{Time: r.Now, Kind: kind, ID: r.ID, Owner: r.Owner, Token: r.Token}
}
