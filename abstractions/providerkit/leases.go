package providerkit

import "context"

// Leases are a service's own leases, one for each item. They provide the exclusion,
// and the record names the holder. The record is written first, and the lease
// follows the record. If the process dies in between, the next call for the name makes
// the lease follow. A Put returns ErrConflict if another client has taken the lease
// since the item was read, because the record would name the wrong holder.
type Leases interface {
	// Complete completes a record that was just read: Breaking if the service takes the
	// lease for broken, Unconfirmed, Slack, and Left, which is the stored TTL before. It
	// reports whether the lease has not followed a release or a break yet.
	Complete(item Item, r *Record) (behind bool)
	// Reconcile makes the lease agree with the record, if that is still what is stored
	// and the lease belongs to the claim. Otherwise it returns ErrConflict, or a
	// *HeldError if another claim has the lease. It sets Left if it learns the time left.
	Reconcile(ctx context.Context, item Item, r *Record) (Item, error)
}
