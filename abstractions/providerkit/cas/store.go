package cas

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// ErrConflict is returned by a Store if the stored version is not the one to be
// replaced. Nothing was written.
var ErrConflict = errors.New("another version is stored")

// Store is a backend that can compare and set. A driver supplies a Store to Records.
type Store interface {
	// Get returns the item that is stored under a key, or an Item without a Version if
	// the key is absent. Both have the service's times. Get shows every Put that was acknowledged before the Get began, unless
	// Records.Lagging is set.
	Get(ctx context.Context, key string) (Item, error)
	// Put stores data, the encoded form of r, in place of an item that Get, List or Put
	// has returned, if that item is still stored, and otherwise returns ErrConflict.
	// After any other error the data may have been stored.
	Put(ctx context.Context, old Item, r *providerkit.Record, data []byte) (Item, error)
	// List returns a page of items, in any order, and the place where the next page begins: "" at
	// the end. A page may be short, and may contain items outside the query. A store that can't
	// list returns abstractions.ErrUnsupported.
	List(ctx context.Context, query ListQuery) (items []Item, next string, err error)
	// Delete deletes an item, if it is still stored unchanged and may be deleted, and
	// otherwise returns ErrConflict.
	Delete(ctx context.Context, item Item) error
}

// ListQuery selects the items that a Store lists.
type ListQuery struct {
	Prefix string        // of the names of leases
	Idle   time.Duration // only items whose last Put is at least that long ago
	After  string        // the place where the previous page ended; it may also be a key, unless Records.ManualSweep is set
	Limit  int           // the maximum number of items in a page
}

// Item is a key in a Store, with its data.
type Item struct {
	Key     string
	Data    []byte
	Version string // such as an ETag; "" if no record is stored
	// Written is the service's time of the last Put, and Now that of the reply. Both
	// are zero if the service reports no time.
	Written, Now time.Time
	State        any // for the store's own use
}

// Leases are a service's own leases, one for each item. They provide mutual exclusion,
// and the record names the holder. The record is written first, and the lease follows
// the record. If the process dies in between, the next call for the name makes the
// lease follow. A Put returns ErrConflict if another client has taken the lease since
// the item was read, because the record would name the wrong holder.
type Leases interface {
	// Complete sets fields of a record that was just read: Breaking if the service's
	// lease is broken, Unconfirmed, Slack, and Left, which is the stored TTL before the
	// call. It reports whether the lease has yet to follow a release or a break.
	Complete(item Item, r *providerkit.Record) (behind bool)
	// Reconcile makes the lease agree with the record, if the record is still stored and
	// the lease belongs to the claim. Otherwise it returns ErrConflict, or a *HeldError
	// if another claim has the lease. It sets Left if it learns the time left.
	Reconcile(ctx context.Context, item Item, r *providerkit.Record) (Item, error)
}
