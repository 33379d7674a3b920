// Package multilease acquires several leases together. A failed acquire holds none of the names.
//
//	err := multilease.Do(ctx, manager, []string{"account/7", "account/9"},
//		func(ctx context.Context, set *multilease.Set) error {
//			return transfer(ctx, set.Lease("account/7").Token(), set.Lease("account/9").Token())
//		})
//
// # How it works
//
// The names are acquired one after the other in byte order, whatever the
// order of the arguments. So two processes that want the same names never
// deadlock, each holding one and waiting for the other. A name given twice is
// acquired once.
//
// While the acquire waits for later names, the leases already held are renewed. If one of
// them is lost, the acquire fails at once, since the set can no longer be
// complete. WaitLimit applies to all names together. A failed acquire releases
// the leases that it already held.
//
// The set's context ends when any of its leases is lost; the cause names that
// lease. Leases are released in reverse order, so that the next process that
// wants them finds all of them free.
//
// # What it does not promise
//
// The leases begin and end one by one, not at one moment. Each name has fencing
// tokens of its own, unrelated to the others: give each resource the
// token of its name. As with one lease, a paused process is not stopped:
// see package fencing.
//
// A manager with Options.NoAutoRenew does not renew its leases. With such a manager, an acquire
// fails if the first lease runs out before the last name is free.
package multilease
