package abstractions

import (
	"context"
	"time"
)

// The interfaces below are optional abilities of a provider. Ask for one with
// As, never with a type assertion: a wrapper answers for itself.

// BatchRenewer renews many claims in one request. Without it the core renews
// them one by one.
type BatchRenewer interface {
	// RenewBatch returns one result for each request, in order. An item whose
	// outcome it does not know carries an error that says so; one claim's
	// failure does not touch another's. The error it returns beside them is
	// about the whole batch, and every item it has no result for is unknown.
	RenewBatch(ctx context.Context, reqs []RenewRequest) ([]RenewResult, error)
}

// RenewResult is one item of a batch: a grant or an error, as Renew returns them.
type RenewResult struct {
	Grant Grant
	Err   error
}

// Waiter pushes a hint when a name may have become free. Without it the core
// polls, and with it the core polls too, only more rarely.
type Waiter interface {
	// Wait registers the claim req.ID as waiting for req.Name. After it has
	// returned the caller asks for the name with that ID, and misses nothing: a
	// release that follows an answer of ErrHeld is hinted. The registration
	// lasts until ctx ends; whatever the provider then has to undo it does
	// itself.
	Wait(ctx context.Context, req WaitRequest) (Wakeups, error)
}

// WaitRequest registers a waiter.
type WaitRequest struct {
	Name  string
	ID    string // of the claim that will be acquired
	Owner string // of that claim, for people to read; decides nothing
}

// Wakeups is a registration. Hints may be lost, late, doubled or wrong: after
// one the name is asked for, nothing more.
type Wakeups struct {
	// C has a buffer of one and is never closed while ctx lives.
	C <-chan struct{}
}

// WaiterLister tells who waits for a name. Without it Manager.Waiters returns
// ErrUnsupported.
type WaiterLister interface {
	// Waiters returns the claims that wait for req.Name, in the order in which they
	// are served, at most the first MaxWaiters, and disturbs nobody. A claim that has
	// registered (see Waiter) is listed from its next refusal on, or earlier, until it
	// has the name or its registration ends. In a queue (see Capabilities.Queues) one
	// that lets its turn pass, since its process hangs or is gone, is not listed after
	// that, unless it asks again.
	Waiters(ctx context.Context, req WaitersRequest) ([]Waiting, error)
}

// MaxWaiters bounds the answer of a WaiterLister.
const MaxWaiters = 1000

// WaitersRequest asks who waits for a name.
type WaitersRequest struct {
	Name string
}

// Waiting is a claim that waits for a name. Its times are the backend's, comparable
// with each other and not with the reader's clock.
type Waiting struct {
	ID    string // of the claim: Lease.ID once it has the name
	Owner string
	Since time.Time // when it joined those who wait
	Now   time.Time // the backend's clock at the read
}

// Lister lists records by prefix. Without it Manager.List returns ErrUnsupported.
type Lister interface {
	// List returns a page of the names that begin with req.Prefix, held or
	// remembered, in an order of the provider's choice. Each name that exists
	// throughout the listing appears once.
	List(ctx context.Context, req ListRequest) (ListResult, error)
}

// ListRequest asks for a page.
type ListRequest struct {
	Prefix   string // "" lists all
	HeldOnly bool   // leave out names that are free
	Limit    int    // at most this many records; 0 means 100, above 1000 means 1000
	After    string // ListResult.Next of the page before; "" for the first
}

// ListResult is a page.
type ListResult struct {
	Records []Record
	Next    string // "" after the last page; a page before it may be empty
}

// Pinger tells whether the backend answers, at the least cost. Without it the
// core inspects a name instead.
type Pinger interface {
	Ping(ctx context.Context) error
}

// HistoryReader reads what happened to a name. Without it there is no history.
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

// HistoryEntry is one change to a name, by the backend's clock. In JSON its fields have
// the names in their tags.
type HistoryEntry struct {
	Time  time.Time   `json:"time"`
	Kind  HistoryKind `json:"kind"`
	ID    string      `json:"id,omitempty"`
	Owner string      `json:"owner,omitempty"`
	Token int64       `json:"token"`
	// Actor and Reason are those of the BreakRequest (HistoryBroken). Where package history
	// writes, also those of a loss, and why a release could not be told.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NamedEntry is a HistoryEntry that says which name it is about.
type NamedEntry struct {
	Name string `json:"name"`
	HistoryEntry
}

// HistoryKind says what happened.
type HistoryKind string

// The kinds of history. An expiry is recorded when the next change of the name
// finds it, with the time at which the lease ran out.
const (
	HistoryAcquired HistoryKind = "acquired"
	HistoryRenewed  HistoryKind = "renewed"
	HistoryExpired  HistoryKind = "expired"
	HistoryReleased HistoryKind = "released"
	HistoryBroken   HistoryKind = "broken"
	// HistoryLost: the holder stopped trusting its lease, by its own account. Package
	// history writes it, and no provider does.
	HistoryLost HistoryKind = "lost"
)

// As returns the provider's ability T, one of the interfaces above.
//
// A wrapper implements the method As(target any) bool. It sets *target, a
// pointer to one of those interfaces, and returns true for what it answers;
// what it does not answer is hidden, and the fallback applies. One that embeds a
// concrete provider needs that method too: the embedded one's would hand out the
// embedded provider, past all that the wrapper overrides.
func As[T any](p Provider) (T, bool) {
	if wrapper, ok := p.(interface{ As(target any) bool }); ok {
		var ability T
		ok := wrapper.As(&ability)
		return ability, ok
	}
	ability, ok := p.(T)
	return ability, ok
}
