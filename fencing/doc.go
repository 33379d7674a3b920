// Package fencing holds the checks that a protected resource makes on a
// fencing token, so that a former holder of a lease can do no harm.
//
// # Why
//
// A lease ends on its holder's side before anyone else can get it, but the
// holder can't act on that while it is paused: a garbage collection, a stopped
// container, a suspended machine, a packet that waits in a switch. It wakes up,
// finishes the statement that it was about to send, and overwrites its
// successor's work. No lock service can prevent this; the resource can, by
// refusing a token smaller than one it has already seen. See Martin Kleppmann,
// "How to do distributed locking" (2016), and the request for fencing tokens
// in Redis' page "Distributed Locks with Redis".
//
// Lease.Token is such a token: it increases with each change of ownership of a
// name, on every provider, and stays the same through renewals. So an equal
// token comes from the same holder and is accepted, a smaller one is refused
// with an error that matches leasing.ErrStale.
//
// # What there is
//
//   - [Table]: a table in the resource's own SQL database that remembers the
//     highest token seen for each resource, and runs a statement in the same
//     transaction only if the token is not stale.
//   - [Guard]: the condition for a table whose rows carry their token in a
//     column of their own.
//   - [Redis]: a check that runs as one script with what it guards: setting or
//     deleting a key, or a script of your own.
//   - [Replace]: objects and documents that carry their token and are replaced
//     under an ETag, as in Azure Blob Storage, Cosmos DB or Amazon S3.
//     [Condition] is the rule without the loop.
//   - [Handler]: HTTP middleware that answers requests with a stale token
//     itself; [Transport] sends the token, [CheckResponse] knows the answer.
//   - [Gate], and [Gates] by name: the same for resources in memory, and for
//     tests.
//
// # What it does not do
//
//   - It does not order what a holder reads. A value read before the token was
//     shown to the resource may be overwritten by the former holder until then,
//     and a write computed from it loses that update. So show the token first:
//     read inside Table.Do, or call Advance once (of Table, in a transaction of
//     its own; of Redis), or write an object's token, when the lease begins.
//   - It protects only writers that take part. A statement sent without the
//     check is not stopped.
//   - It remembers no better than where the token is kept. A resource that lost
//     or deleted its token admits anybody until it is shown the next.
//   - It compares tokens of one lease name. Two names have unrelated tokens: a
//     resource is protected by one name, always the same.
//   - It does not replace the lease: without one, holders with rising tokens
//     would refuse each other's work in turn.
package fencing
