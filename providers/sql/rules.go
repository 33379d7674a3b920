package sqllease

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// The rules are pure: from a row and a request they make a change. A dialect
// reads the row, applies one of them, and writes the change only if the row is
// still the one that was read. PostgreSQL states the commonest outcomes in SQL
// besides, to answer them in one round trip; see shortcuts in backend.go.

// change is what a rule wants done, and the answer to the caller.
type change struct {
	err error // the answer, whether or not something is written

	write bool // the fields below, except notes, replace those of the row
	row
	newToken bool // under a new fencing token; the lease begins now
	expiry   expiry
	in       time.Duration // with expireIn

	note abstractions.HistoryKind // what to record, if anything
	wake bool                     // waiters should ask again
}

// expiry says what becomes of the deadline.
type expiry uint8

const (
	expireAsBefore expiry = iota
	expireNever           // also that of a free name
	expireIn              // change.in from the moment of writing
)

func (c *change) expireAfter(d time.Duration) {
	c.expiry, c.in = expireIn, d
	if d == abstractions.Infinite {
		c.expiry = expireNever
	}
}

// acquire takes the name if it is free, or prolongs the claim if it is ours.
func (r *row) acquire(req abstractions.AcquireRequest) change {
	if known, _ := r.ended.find(req.ID); known || r.broken(req.ID) {
		return change{err: abstractions.ErrReleased}
	}
	if r.held() && r.id != req.ID {
		return r.refuse()
	}
	c := change{write: true, row: *r}
	c.owner, c.metadata = req.Owner, encodeMetadata(req.Metadata)
	if r.held() {
		// A repetition never shortens the lease: it may be an old request
		// that arrives after a renewal for longer, or for ever.
		if req.TTL > r.left {
			c.ttl = req.TTL
			c.expireAfter(req.TTL)
		}
		return c
	}
	c.id, c.ttl, c.breaking = req.ID, req.TTL, false
	c.newToken, c.note = true, abstractions.HistoryAcquired
	c.expireAfter(req.TTL)
	return c
}

// refuse answers that somebody else holds the name. Where the deadline was
// written by a clock that is no longer the present one, it is written anew.
func (r *row) refuse() change {
	c := change{err: &abstractions.HeldError{Holder: r.record()}}
	if r.unsettled {
		c.write, c.row = true, *r
		c.expireAfter(r.left)
	}
	return c
}

// release frees the name if it is ours, and refuses the ID from now on, also
// if the name was never seen: its acquire may still be on the way.
func (r *row) release(id string) change {
	if known, _ := r.ended.find(id); known && r.id != id {
		return change{}
	}
	c := change{write: true, row: *r}
	c.ended = r.ended.add(id, false)
	if r.id == id {
		c.free()
		if r.held() {
			c.note, c.wake = abstractions.HistoryReleased, true
		}
	}
	return c
}

func (c *change) free() {
	c.id, c.owner, c.metadata, c.ttl, c.breaking = "", "", "{}", abstractions.Infinite, false
	c.acquiredAt = time.Time{}
	c.expiry = expireNever
}

// end breaks the lease there is. It also tells for how long it still runs.
func (r *row) end(req abstractions.BreakRequest) (change, time.Duration) {
	if req.IfToken != 0 && req.IfToken != r.token {
		return change{err: fmt.Errorf("%w: %d was to be broken, the latest is %d", abstractions.ErrStale, req.IfToken, r.token)}, 0
	}
	if !r.held() {
		return change{}, 0
	}
	c := change{write: true, row: *r, wake: true}
	c.ended = r.ended.add(r.id, true)
	if !r.breaking {
		c.note = abstractions.HistoryBroken
	}
	if req.Immediate {
		c.free()
		return c, 0
	}
	left := r.left
	if left == abstractions.Infinite {
		left = max(req.Grace, time.Millisecond)
		c.expireAfter(left)
	}
	c.breaking = true
	return c, left
}

// broken says whether a claim was broken and is the latest still, although its ID
// may be among those that the name has forgotten.
func (r *row) broken(id string) bool { return r.breaking && r.id == id }

// lost says why a claim can't be renewed, or nil if it can.
func (r *row) lost(req abstractions.RenewRequest) error {
	known, broken := r.ended.find(req.ID)
	switch {
	case broken, r.broken(req.ID):
		return &abstractions.LostError{Reason: abstractions.LostBroken}
	case known, r.version == 0:
		return &abstractions.LostError{Reason: abstractions.LostGone}
	case r.id == req.ID && r.token == req.Token:
		if r.held() {
			return nil
		}
		return &abstractions.LostError{Reason: abstractions.LostExpired}
	case r.token > req.Token:
		return &abstractions.LostError{Reason: abstractions.LostTaken}
	default: // the database has lost what it once granted
		return &abstractions.LostError{Reason: abstractions.LostGone}
	}
}
