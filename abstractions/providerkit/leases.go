package providerkit

import "context"

// Leases are those that a service has itself, one for each item: they exclude, and the
// record says who has which. A write of the record comes first, and the lease follows
// it. If the process dies in between, the next call for the name has it follow. A Put
// returns ErrConflict if somebody has taken the lease since the item was read: the
// record would name another than the holder.
type Leases interface {
	// Judge completes a record that was just read: Breaking if the service takes the
	// lease for broken, Unconfirmed, Slack, and Left, which is the stored TTL before. It
	// reports whether the lease has not followed a release or a break yet.
	Judge(item Item, r *Record) (behind bool)
	// Follow makes the lease what the record says, if that is still what is stored and
	// the lease is the claim's, and otherwise returns ErrConflict. It sets Left if it
	// learns of it. Where the lease is somebody else's it may return a *HeldError.
	Follow(ctx context.Context, item Item, r *Record) (Item, error)
}
