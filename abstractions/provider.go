package abstractions

import (
	"context"
	"math"
	"time"
)

// Infinite is the TTL of a lease that never expires by itself. Such a lease ends
// only by Release or Break, so a holder that crashes blocks the name until an
// operator breaks the claim. [Capabilities.Infinite] says whether a backend
// supports such leases.
const Infinite = time.Duration(math.MaxInt64)

// Provider connects package leasing to a backend. Each method makes one
// attempt. Timers, retries and metrics belong to [Manager].
//
// This is the contract, which package providertest checks:
//
//   - All methods are safe for concurrent use and return soon after ctx has ended.
//   - A method validates its request (see the Validate methods) before it
//     sends anything, and returns [ErrInvalid] for an invalid request.
//   - The backend's writes alone decide who holds a name. Leases expire by the
//     backend's clock, or by a contender's monotonic clock: see [Capabilities.Clock].
//   - Any error other than [ErrHeld], [ErrLost], [ErrReleased], [ErrStale], [ErrInvalid], [ErrDenied], [ErrNotSetUp],
//     [ErrThrottled] or [ErrClosed] means that the outcome is unknown: the request may have been applied, or may yet be. The nine
//     errors mean that nothing was applied. An error may override this: see [NotApplied].
//   - A claim's ID is a key. A method returns it only to the claim's holder, in a Grant.
//     Records, waiters, history and the texts of errors have a [Fingerprint] in its place.
//   - After Close every method returns [ErrClosed].
type Provider interface {
	// Acquire makes one attempt to acquire req.Name for req.ID.
	//
	// It is idempotent by ID. While the claim of req.ID is alive, acquiring it
	// again returns the same token and grants the TTL again from now. It never shortens the claim and does not change anything
	// else, since the request may be a late copy that arrives after renewals with a longer TTL, or with other metadata. An ID
	// that was released or broken is refused with ErrReleased, even if it never held the name (a delayed request must not land
	// after its own clean-up). A provider remembers at least the last eight such IDs of each name, and preferably all of the last
	// minute: see providerkit.Ended. An ID that is released again may keep its place in that list.
	//
	// If someone else holds the name, Acquire returns a *HeldError with the
	// backend's record of the holder. A new holder's token is greater than
	// every earlier token of the name, however the earlier leases ended.
	Acquire(ctx context.Context, req AcquireRequest) (Grant, error)

	// Renew extends a claim by req.TTL from now and keeps its token.
	//
	// It reports a *LostError only when it is certain that the claim has ended.
	// A claim that has expired is lost; Renew may revive it only if provably no
	// other claim has owned the name in between. A claim that was released, broken
	// or taken over is lost. While a broken lease runs out, the error has the
	// Actor and Reason of the BreakRequest.
	Renew(ctx context.Context, req RenewRequest) (Grant, error)

	// Release frees the name if the claim req.ID holds it, and refuses that
	// ID from then on. It is idempotent: releasing a claim that has expired,
	// was replaced, or never existed is not an error and does not affect the
	// present holder.
	Release(ctx context.Context, req ReleaseRequest) error

	// Break ends the current claim on behalf of an operator, who need not know its ID. It keeps the name's fencing token. See
	// BreakRequest for the two ways to end a claim.
	Break(ctx context.Context, req BreakRequest) (BreakResult, error)

	// Inspect returns the current record of a name without changing the record. The
	// record of a name that was never used is free and has token 0.
	Inspect(ctx context.Context, req InspectRequest) (Record, error)

	// Capabilities returns facts about the backend. They don't change.
	Capabilities() Capabilities

	// Close frees the resources that the provider itself opened. It does not release
	// leases.
	Close() error
}

// AcquireRequest asks for one attempt to acquire a name.
type AcquireRequest struct {
	Name  string
	ID    string // chosen by the caller, unique to this claim: see NewID
	Owner string // a label for the holder; for display only
	TTL   time.Duration
	// Metadata is stored with the claim and shown by Inspect. The provider
	// must not keep or change the map.
	Metadata map[string]string
}

// RenewRequest extends a claim.
type RenewRequest struct {
	Name  string
	ID    string
	Token int64         // as granted; a token that is not the claim's is refused as lost
	TTL   time.Duration // from now; may be Infinite
	State any           // of the latest grant; nil for a claim adopted from another process
	// Metadata, unless nil, replaces the claim's; an empty map clears the claim's. The
	// provider must not keep or change the map.
	Metadata map[string]string
}

// ReleaseRequest gives a claim up.
type ReleaseRequest struct {
	Name  string
	ID    string
	Token int64 // as granted; 0 when cleaning up an attempt whose outcome is unknown
	State any   // of the latest grant; nil when cleaning up
}

// BreakRequest asks to end the current claim of a name.
type BreakRequest struct {
	Name string
	// IfToken, unless 0, is the token of the lease to break. If the name's
	// latest token differs, nothing changes and the error matches ErrStale.
	IfToken int64
	// Immediate frees the name now, while its holder may still trust its
	// lease: an exception to mutual exclusion. Otherwise the backend refuses
	// further renewals and the lease runs out.
	Immediate bool
	// Grace is the time for which an infinite lease that is broken without Immediate
	// still runs, so that its holder can learn of the break. It must then be
	// at least 1 ms.
	Grace time.Duration
	// Actor says who breaks the lease and Reason why, for people to read: at
	// most MaxOwnerBytes and MaxReasonBytes. The record shows both while the
	// lease runs out, and so does the history. Either may be empty.
	Actor, Reason string
}

// BreakResult describes the name before and after a Break.
type BreakResult struct {
	WasHeld   bool
	Token     int64         // the name's latest token; 0 if the name was never seen
	Remaining time.Duration // until the name is free; 0 if it is free now
}

// InspectRequest names a record.
type InspectRequest struct {
	Name string
}

// Grant is the backend's confirmation that a claim holds its name.
//
// It carries no wall-clock expiry: the holder counts the TTL from just before
// it sent the request, on its own clocks.
type Grant struct {
	Name  string
	ID    string
	Token int64         // the fencing token: see NextToken
	TTL   time.Duration // as granted, exactly as requested unless the backend documents otherwise
	State any           // opaque to package leasing, which passes it back in the next request; immutable
}

// Record is a backend's data about a name at one moment. Times are the
// backend's, comparable with each other and not with the reader's clock.
//
// On a free name only Name, Token and Now are promised.
type Record struct {
	Name string
	Held bool
	// Fingerprint identifies the claim. A record never has the ID itself.
	Fingerprint Fingerprint
	Owner       string
	Token       int64 // the latest token, also after the lease has ended; 0 if never seen
	TTL         time.Duration
	Metadata    map[string]string
	AcquiredAt  time.Time // zero if the backend does not keep it
	ExpiresAt   time.Time // zero for an infinite lease, or if the backend does not report it
	Now         time.Time // the backend's clock at the read; zero if not reported
	// Breaking says that the lease was broken and is running out. BrokenBy
	// and BreakReason are then the BreakRequest's Actor and Reason.
	Breaking              bool
	BrokenBy, BreakReason string
	// Unconfirmed says that the name is taken but that the holder's identity
	// could not be confirmed: the other fields may be an earlier holder's.
	Unconfirmed bool
}

// Remaining returns how long the lease still runs by the backend's clock, and
// whether that is known: 0 and true if the name is free. It is never known
// for an infinite lease.
func (r Record) Remaining() (time.Duration, bool) {
	if !r.Held {
		return 0, true
	}
	if r.ExpiresAt.IsZero() || r.Now.IsZero() {
		return 0, false
	}
	return max(0, r.ExpiresAt.Sub(r.Now)), true
}

// LastRenewed returns when the backend last granted the lease, by the acquire or a renewal, and whether that is known.
// The time is ExpiresAt less TTL, so no backend stores anything for this method. It is by the backend's clock, and up
// to Capabilities.Lateness later than the grant. It is not known for a free name, for an infinite lease, for an
// unconfirmed holder, and where Capabilities.RemainingKnown is false: Blob Storage, etcd and Consul do not report when
// a lease ends.
func (r Record) LastRenewed() (time.Time, bool) {
	if !r.Held || r.Unconfirmed || r.ExpiresAt.IsZero() || r.TTL <= 0 || r.TTL == Infinite {
		return time.Time{}, false
	}
	at := r.ExpiresAt.Add(-r.TTL)
	if at.Before(r.AcquiredAt) {
		at = r.AcquiredAt
	}
	if !r.Now.IsZero() && at.After(r.Now) {
		at = r.Now
	}
	return at, true
}

// Lateness bounds how long a working backend may take to free an expired lease: a fixed
// part (a clock's resolution, a sweep's interval) plus a share of the lease's TTL.
type Lateness struct {
	Fixed  time.Duration `json:"fixed_ns"`
	PerTTL float64       `json:"per_ttl"`
	// Watched says that the backend has no clock: a contending client counts the TTL from its
	// own first read of the lease, if that is later than the grant.
	Watched bool `json:"watched"`
}

// After returns the bound for a lease of the given TTL.
func (l Lateness) After(ttl time.Duration) time.Duration {
	return l.Fixed + time.Duration(l.PerTTL*float64(ttl))
}

// Capabilities are facts about a backend.
type Capabilities struct {
	// Provider is the backend's name in errors, metrics and health: "postgres".
	Provider string
	// MinTTL and MaxTTL bound a finite TTL; MaxTTL 0 means no bound.
	MinTTL, MaxTTL time.Duration
	// Granularity is the unit of a TTL. Package leasing rounds other TTLs up
	// to a multiple of the unit. 0 means nanoseconds.
	Granularity time.Duration
	// Infinite says that leases may be infinite.
	Infinite bool
	// Clock says in a few words which clock decides expiry: "the PostgreSQL
	// server's clock". That clock is never a client's wall clock.
	Clock string
	// Lateness bounds how long after its TTL an expired lease may still block
	// others. A lease is never freed early.
	Lateness Lateness
	// RemainingKnown says that a HeldError and Inspect show the time left.
	RemainingKnown bool
	// Queues says that registered waiters are served in order: a name that
	// becomes free is reserved for the first of them, for a short while. Then
	// a process need not pause to give waiters of other processes their turn.
	Queues bool
	// HeedsContext says that every call returns soon after its context ends,
	// even if the backend or its client library hangs. The manager then makes
	// calls on its callers' goroutines. Otherwise it uses separate goroutines,
	// which it can abandon when a call hangs and which cost a microsecond or two
	// per call.
	HeedsContext bool
	// ReadsMayLag says that Inspect and List may show an older state than the latest
	// acknowledged write.
	ReadsMayLag bool
	// MaxNameBytes bounds the length of a name; 0 means the constant MaxNameBytes (512).
	MaxNameBytes int
}
