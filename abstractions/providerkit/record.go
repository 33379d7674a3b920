package providerkit

import (
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// DefaultRetention is the time for which a name is remembered by default after its
// last use. It is longer than the delays of requests, and short enough for a
// backend that sees a hundred new names per second.
const DefaultRetention = time.Hour

// Record is the data that a backend stores about a name, with facts about the moment
// of the read. The zero value with a Name is the record of a name that was never used.
//
// The rules Acquire, Renew, Release and Break change a record in place and return a
// Change that describes the write. They neither read a clock nor send requests. Clone the
// record first if you still need it unchanged.
type Record struct {
	Name  string `json:"name"`
	Token int64  `json:"token"`           // of the latest holder; 0 if the name was never held
	ID    string `json:"id,omitempty"`    // of the holder, even after its lease has run out; "" after a release or an immediate break
	Owner string `json:"owner,omitempty"` // of the holder
	// Metadata is replaced, never changed.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Breaking says that the lease was broken and is running out. BrokenBy and
	// BreakReason say by whom and why.
	Breaking    bool   `json:"breaking,omitempty"`
	BrokenBy    string `json:"broken_by,omitempty"`
	BreakReason string `json:"break_reason,omitempty"`
	Ended       Ended  `json:"ended,omitempty"`

	// The following fields are not stored in this form.

	TTL        time.Duration `json:"-"`
	AcquiredAt time.Time     `json:"-"` // by the backend's clock
	IdleSince  time.Time     `json:"-"` // when an ID last ended

	// Now is the backend's clock, read no earlier than the request was sent; zero if
	// the backend reports no time. Tokens are then a plain counter, so a record must
	// be kept, or at least its token: see Forgettable.
	Now time.Time `json:"-"`
	// Left is the time that the lease has left: Infinite for an infinite lease, and 0 or
	// less after the lease has run out. The rules set it to the time left after the
	// write.
	Left time.Duration `json:"-"`
	// Slack bounds by how much the time left may be shorter than Left, if the
	// backend's time is not exact: Infinite if unknown. The time left is never
	// longer than Left.
	Slack time.Duration `json:"-"`
	// Unsettled says that the deadline was written by a clock that has been set
	// back since, or that has ended with an earlier boot of the host: see SetLeft.
	Unsettled bool `json:"-"`
	// Unconfirmed says that the service shows the name as taken, perhaps by a claim other
	// than ID. If ID is empty, the name is taken by a claim without a record.
	Unconfirmed bool `json:"-"`
	// Floor is a token that the next token has to exceed, in addition to Token: the highest token of the
	// records that were forgotten (see cas.Records.FloorKey), or of the tokens granted within the same
	// second.
	Floor int64 `json:"-"`
}

// Clone returns a copy that a rule may change. Metadata, which no rule changes, is
// shared.
func (r *Record) Clone() Record {
	next := *r
	next.Ended = slices.Clone(r.Ended)
	return next
}

// Held reports whether the name is taken.
func (r *Record) Held() bool { return (r.ID != "" || r.Unconfirmed) && r.Left > 0 }

// SetLeft sets Left from a deadline that was written by a clock of the host. A
// lease has at most its TTL left, unless that clock went back: even then its
// holder, who renewed before now, trusts it for at most one TTL from now. The next
// contender writes the new deadline.
func (r *Record) SetLeft(left time.Duration) {
	r.Left = min(left, r.TTL)
	r.Unsettled = r.Unsettled || left-time.Millisecond > r.TTL // deadlines are rounded up
}

// Show returns the form of the record that others may see, without the ID.
func (r *Record) Show() abstractions.Record {
	shown := abstractions.Record{Name: r.Name, Token: r.Token, Now: r.Now}
	if !r.Held() {
		return shown
	}
	shown.Held, shown.Unconfirmed, shown.Fingerprint, shown.Owner, shown.TTL = true, r.Unconfirmed, abstractions.FingerprintOf(r.ID), r.Owner, r.TTL
	shown.Metadata, shown.AcquiredAt = maps.Clone(r.Metadata), r.AcquiredAt
	shown.Breaking, shown.BrokenBy, shown.BreakReason = r.Breaking, r.BrokenBy, r.BreakReason
	if r.Left != abstractions.Infinite && r.Slack != abstractions.Infinite && !r.Now.IsZero() {
		shown.ExpiresAt = r.Now.Add(r.Left)
	}
	return shown
}

// Grant returns the answer to a claim after a successful Acquire or Renew.
func (r *Record) Grant(ttl time.Duration) abstractions.Grant {
	return abstractions.Grant{Name: r.Name, ID: r.ID, Token: r.Token, TTL: ttl}
}

// Forgettable reports whether the record may be deleted: for the whole retention the name has been
// free and no ID has ended, and the clock ensures that its next token is greater. That clock may be
// ahead now, and be corrected later. So the backend keeps the highest token that it has forgotten, as
// a Floor. Without a clock a record is kept for ever.
func (r *Record) Forgettable(retention time.Duration) bool {
	if r.Held() || r.Now.IsZero() || retention == abstractions.Infinite || r.Token >= r.Now.UnixMicro() {
		return false
	}
	idle := r.Now.Sub(r.IdleSince)
	if r.ID != "" {
		idle = min(idle, -r.Left)
	}
	return idle >= retention
}
