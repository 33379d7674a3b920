// Package multilease acquires several leases together: all of them or none.
//
//	err := multilease.Do(ctx, manager, []string{"account/7", "account/9"}, nil,
//		func(ctx context.Context, set *multilease.Set) error {
//			return transfer(ctx, set.Lease("account/7").Token(), set.Lease("account/9").Token())
//		})
//
// # How it works
//
// The names are acquired one after the other in one order, that of their
// bytes, whatever order they are given in. So two processes that want the same
// names never hold one each and wait for the other. A name given twice is
// acquired once.
//
// While it waits for a name, the leases it has already are renewed, and
// watched: if one of them is lost, the acquire fails at once, since the set
// could no longer be complete. The wait limit is one for all names. If the
// acquire fails, for whatever reason, what it had is released again.
//
// The set's context ends when any of its leases is lost; the cause names it.
// Leases are released in reverse order, so that the next one who wants them
// finds all of them free.
//
// # What it does not promise
//
// The leases begin and end one by one, not at one moment. Each name has a
// fencing token of its own, unrelated to the others: give each resource the
// token of its name. And as with one lease, a paused process is not stopped:
// see package fencing.
//
// A manager whose Options.NoAutoRenew is set renews nothing. With it a set
// fails, as described, if the first lease's TTL passes before the last name
// is free.
package multilease
