// Package history writes down what happens to leases whose provider keeps no history:
// who acquired a name, released, lost or broke it, when and why.
//
//	audit, err := sqllease.Open(ctx, sqllease.Options{URL: "sqlite:///var/lib/app/audit.db", Create: true, History: true})
//	...
//	recorder, err := history.New(audit, history.Options{Logger: slog.Default()})
//	...
//	defer recorder.Close(ctx) // after the manager's Close
//	manager.Subscribe(recorder.Observe)
//
// Entries go to a [Writer]: a table that providers/sql made, which that provider's
// History reads as if it had written them, or [JSONLines].
//
// The SQL providers and the one in memory keep a history themselves, in the change that it
// tells of. Use that where you can: this one is the managers' account, and best effort.
//
// # What it promises
//
// No lease waits for it, or fails because of it. Entries wait in memory, so many at
// most, for one goroutine that writes them in batches, in the order in which the manager
// told of them. A batch that fails is tried again until it is written, or Close gives up.
// Entries that find no room are dropped, counted and logged.
//
// # What it does not promise
//
// An entry may be missing: a process that is killed writes nothing more, neither what
// waited in memory nor that it lost its leases. A reader sees the next acquire, with a
// greater token. A holder that could not tell the backend of its release has a reason in
// the released entry; the name was free when its TTL had passed. Entries may be there
// twice, if the answer to a write was lost: they are equal.
//
// Times are of the clock of the process that tells, and those of several processes arrive
// in any order. The order of what happened to a name is that of the tokens, and for one
// token: acquired, renewed, broken, then lost or released. An adopted lease is acquired
// again, with the same token. A break knows the token, and not whose lease it was: the
// acquired entry of that token does.
//
// What a provider calls expired is here the holder's own "lost", with the reason: see
// leasing.LostReason. It tells of the end of the trust, which is before that of the lease.
package history
