// Package history records the history of leases whose provider keeps no history: each acquire,
// release, loss and break of a name, with its author, time and reason.
//
//	audit, err := sqlitelease.Open(ctx, sqlitelease.Options{URL: "sqlite:///var/lib/app/audit.db", Create: true, History: true})
//	...
//	recorder, err := history.New(audit, history.Options{Logger: slog.Default()})
//	...
//	defer recorder.Close(ctx) // after the manager's Close
//	manager.Subscribe(recorder.Observe)
//
// Entries go to a [Writer]: [JSONLines], or a provider of providers/sql, whose History returns them
// like its own entries.
//
// The SQL providers and the memory provider keep a history themselves, atomically with
// each change. Prefer that: this package records what managers report, as a best effort.
//
// # What it promises
//
// Recording neither delays leases nor makes them fail. Up to Options.Buffer entries wait
// in memory for one goroutine, which writes them in batches, in the order of the
// manager's events. A failed batch is retried until it is written, or Close gives up. If
// the buffer is full, entries are dropped, counted and logged.
//
// # What it does not promise
//
// Entries may be missing: a killed process writes neither the entries that waited in
// memory nor the loss of its leases. A reader then sees the next acquire, with a greater
// token. If the backend did not confirm a release, the released entry has a Reason, and
// the name became free when the TTL had passed, or earlier. If the reply to a write was
// lost, equal entries may appear twice.
//
// Times are by the clock of the recording process, and entries of several processes
// arrive in any order. To order the entries of a name, sort them by token, and entries
// with the same token by kind: acquired, renewed, broken, then lost or released. An
// adopted lease has another acquired entry with the same token. A broken entry has the
// token but not the holder, which is in the acquired entry of that token.
//
// Where a provider's own history has an "expired" entry, this history has the holder's
// "lost" entry, with its reason: see leasing.LostReason. Its time is the end of trust,
// which is before the end of the lease.
package history
