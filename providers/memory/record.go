package memlease

import (
	"maps"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// shard is the part of the names that share a lock.
type shard struct {
	sync.Mutex
	records map[string]*record
	// order holds the same records for the sweep's hand to walk over.
	order []*record
	hand  int
	// floor is the highest token among the forgotten, so that tokens rise
	// even if the wall clock has gone back since.
	floor   int64
	waiters map[string][]*waiter

	_ [64]byte // keeps the locks of neighbours off one cache line
}

// record is what is known of one name. It is guarded by its shard's lock.
type record struct {
	name  string
	id    string // of the holder; "" if the last one left for good
	owner string
	token int64 // of the latest holder; 0 if the name was never held
	ttl   time.Duration
	// metadata belongs to the record and is never changed.
	metadata map[string]string
	acquired instant
	expires  instant // when the name is free, or since when it has been
	touched  instant // when an ID was last retired
	gone     *[remembered]retired
	history  *history
	position int32 // in shard.order
	goneNext uint8 // of gone, the oldest
	breaking bool  // broken, and running out
}

// remembered is how many IDs that were given up are refused from then on. The
// contract asks for one; more help requests that were delayed for long.
const remembered = 4

// retired is an ID that was released or broken.
type retired struct {
	id     string
	broken bool
}

// get returns the record of a name, or nil.
func (s *shard) get(name string) *record { return s.records[name] }

// need returns the record of a name and makes it if there is none. It is where
// memory grows, so it is also where the sweep goes on.
func (s *shard) need(name string, now moment, retention time.Duration) *record {
	s.sweep(now, retention)
	if r := s.records[name]; r != nil {
		return r
	}
	r := &record{name: name, expires: now.at, position: int32(len(s.order))}
	s.records[name] = r
	s.order = append(s.order, r)
	return r
}

func (r *record) held(now moment) bool { return r.id != "" && now.at < r.expires }

// begin makes id the holder under a new token.
func (r *record) begin(req abstractions.AcquireRequest, floor int64, now moment) {
	r.id, r.owner, r.ttl = req.ID, req.Owner, req.TTL
	r.token = abstractions.NextToken(max(r.token, floor), now.wall)
	r.metadata = nil
	if len(req.Metadata) > 0 {
		r.metadata = maps.Clone(req.Metadata)
	}
	r.acquired, r.expires, r.breaking = now.at, now.at.plus(req.TTL), false
}

// end frees the name now.
func (r *record) end(now moment) {
	r.id, r.owner, r.metadata, r.breaking = "", "", nil, false
	r.expires = now.at
}

// retire refuses an ID from now on.
func (r *record) retire(id string, broken bool, now moment) {
	r.touched = now.at
	if _, known := r.retired(id); known {
		return
	}
	if r.gone == nil {
		r.gone = new([remembered]retired)
	}
	r.gone[r.goneNext] = retired{id: id, broken: broken}
	r.goneNext = (r.goneNext + 1) % remembered
}

func (r *record) retired(id string) (retired, bool) {
	if r.gone != nil {
		for _, gone := range r.gone {
			if gone.id == id {
				return gone, true
			}
		}
	}
	return retired{}, false
}

// broken says whether a claim was broken and is the latest still, although its ID
// may have been forgotten.
func (r *record) broken(id string) bool { return r.breaking && r.id == id }

// lost says why the claim can't be renewed, or returns nil if it can.
func (r *record) lost(req abstractions.RenewRequest, now moment) error {
	if r == nil {
		return &abstractions.LostError{Reason: abstractions.LostGone}
	}
	if gone, known := r.retired(req.ID); known {
		if gone.broken {
			return &abstractions.LostError{Reason: abstractions.LostBroken}
		}
		return &abstractions.LostError{Reason: abstractions.LostGone}
	}
	switch {
	case r.broken(req.ID):
		return &abstractions.LostError{Reason: abstractions.LostBroken}
	case r.id == req.ID && r.token == req.Token:
		if r.held(now) {
			return nil
		}
		return &abstractions.LostError{Reason: abstractions.LostExpired}
	case r.token > req.Token:
		return &abstractions.LostError{Reason: abstractions.LostTaken}
	default:
		return &abstractions.LostError{Reason: abstractions.LostGone}
	}
}

// show returns the record as others may see it.
func (p *Provider) show(r *record, now moment) abstractions.Record {
	if !r.held(now) {
		return abstractions.Record{Name: r.name, Token: r.token, Now: p.time(now.at)}
	}
	shown := abstractions.Record{
		Name:       r.name,
		Held:       true,
		ID:         r.id,
		Owner:      r.owner,
		Token:      r.token,
		TTL:        r.ttl,
		Metadata:   maps.Clone(r.metadata),
		AcquiredAt: p.time(r.acquired),
		Now:        p.time(now.at),
		Breaking:   r.breaking,
	}
	if r.expires != never {
		shown.ExpiresAt = p.time(r.expires)
	}
	return shown
}

func (r *record) grant(ttl time.Duration) abstractions.Grant {
	return abstractions.Grant{Name: r.name, ID: r.id, Token: r.token, TTL: ttl}
}
