package abstractions

import (
	"context"
	"time"
)

// The interfaces below are optional abilities of a provider. Get one with As, never with
// a type assertion: the method As of a wrapper selects the abilities of the wrapper.

// BatchRenewer renews many claims in one request. Without it package leasing
// sends a request for each claim.
type BatchRenewer interface {
	// RenewBatch returns one result for each request, in order. An item whose
	// outcome is unknown has an error that says so; the failure of one item
	// does not affect another. The second return value is an error of the whole
	// batch: the outcome of every item without a result is then unknown.
	RenewBatch(ctx context.Context, reqs []RenewRequest) ([]RenewResult, error)
}

// RenewResult is one item of a batch: a grant or an error, as from Renew.
type RenewResult struct {
	Grant Grant
	Err   error
}

// Waiter pushes a wake-up when a name may have become free. Package leasing
// polls in any case, but less often with a Waiter.
type Waiter interface {
	// Wait registers the claim req.ID as waiting for req.Name. The caller then
	// tries to acquire the name with that ID. A release after a refusal with
	// ErrHeld causes a wake-up, so no release is missed. The registration lasts
	// until ctx ends, and the provider then removes it from the backend.
	Wait(ctx context.Context, req WaitRequest) (Wakeups, error)
}

// WaitRequest registers a waiter.
type WaitRequest struct {
	Name  string
	ID    string // of the claim that will be acquired
	Owner string // of that claim; for display only
}

// Wakeups is a registration. Wake-ups may be lost, late, duplicated or wrong:
// they only make the waiter try to acquire the name.
type Wakeups struct {
	// C has a buffer of one and is not closed before ctx ends.
	C <-chan struct{}
}

// WaiterLister lists the claims that wait for a name. Without it
// Manager.Waiters returns ErrUnsupported.
type WaiterLister interface {
	// Waiters returns the claims that wait for req.Name, up to MaxWaiters, in the
	// order in which they are served. It only reads. A registered claim (see
	// Waiter) is listed from its next refusal, or earlier, until it holds the name
	// or its registration ends. In a queue (see Capabilities.Queues) a claim that
	// misses its turn, because its process hangs or is dead, is left out of the list until its next request.
	Waiters(ctx context.Context, req WaitersRequest) ([]Waiting, error)
}

// MaxWaiters bounds the number of claims that a WaiterLister returns.
const MaxWaiters = 1000

// WaitersRequest asks for the waiters of a name.
type WaitersRequest struct {
	Name string
}

// Waiting is a claim that waits for a name. Its times are the backend's, comparable
// with each other and not with the reader's clock.
type Waiting struct {
	Fingerprint Fingerprint // of the claim's ID, which is Lease.ID once the claim holds the name
	Owner       string
	Since       time.Time // when it joined the queue
	Now         time.Time // the backend's clock at the read
}

// Lister lists records by prefix. Without it Manager.List returns ErrUnsupported.
type Lister interface {
	// List returns a page of the names that begin with req.Prefix, held or
	// remembered, in an order of the provider's choice. Each name that exists
	// throughout the listing appears once, unless the provider documents an exception,
	// as Redis does: with Redis, later pages may repeat a name, and may omit a name
	// that moves between the servers of a Cluster during the listing.
	List(ctx context.Context, req ListRequest) (ListResult, error)
}

// ListRequest asks for a page.
type ListRequest struct {
	Prefix   string // "" lists all
	HeldOnly bool   // leave out names that are free
	Limit    int    // maximum number of records; 0 means 100, more than 1000 means 1000
	After    string // ListResult.Next of the page before; "" for the first
}

// ListResult is a page.
type ListResult struct {
	Records []Record
	Next    string // "" after the last page; a page before it may be empty
}

// Pinger checks at the lowest cost whether the backend answers. Without it
// package leasing inspects a name instead.
type Pinger interface {
	Ping(ctx context.Context) error
}

// HistoryReader reads the history of a name: its holders, and how each lease ended.
type HistoryReader interface {
	History(ctx context.Context, req HistoryRequest) (HistoryResult, error)
}

// HistoryRequest asks for a page, oldest entry first unless NewestFirst is set.
type HistoryRequest struct {
	Name        string
	NewestFirst bool
	Limit       int    // as in ListRequest
	After       string // HistoryResult.Next of the page before, in the same order
}

// HistoryResult is a page of history.
type HistoryResult struct {
	Entries []HistoryEntry
	Next    string
}

// HistoryEntry is one change to a name. Its time is by the backend's clock.
type HistoryEntry struct {
	Time time.Time   `json:"time"`
	Kind HistoryKind `json:"kind"`
	// Fingerprint identifies the claim.
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`
	Owner       string      `json:"owner,omitempty"`
	Token       int64       `json:"token"`
	// Actor and Reason are those of the BreakRequest (HistoryBroken). Entries that package
	// history writes also use them for a loss, and for a release that the backend did not
	// confirm.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NamedEntry is a HistoryEntry together with the lease name that it concerns.
type NamedEntry struct {
	Name string `json:"name"`
	HistoryEntry
}

// HistoryKind is the kind of change that an entry records.
type HistoryKind string

// The kinds of history. An expiry is recorded together with the next change to the name;
// its time is the end of the lease.
const (
	HistoryAcquired HistoryKind = "acquired"
	HistoryRenewed  HistoryKind = "renewed"
	HistoryExpired  HistoryKind = "expired"
	HistoryReleased HistoryKind = "released"
	HistoryBroken   HistoryKind = "broken"
	// HistoryLost: the holder reported that it no longer trusts its lease. Only
	// package history writes such entries.
	HistoryLost HistoryKind = "lost"
)

// As returns the provider's ability T, one of the interfaces above.
//
// A wrapper implements the method As(target any) bool, whose target points to
// a variable of one of those interfaces. For an ability that the wrapper
// supports, As sets *target and returns true. All other abilities are hidden, and package leasing uses its fallbacks. A wrapper
// that embeds a concrete provider needs its own As too: the promoted method would return the embedded provider, and so bypass the
// wrapper's overrides.
func As[T any](p Provider) (T, bool) {
	if wrapper, ok := p.(interface{ As(target any) bool }); ok {
		var ability T
		ok := wrapper.As(&ability)
		return ability, ok
	}
	ability, ok := p.(T)
	return ability, ok
}
