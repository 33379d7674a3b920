// Package fencing has the check that a protected resource makes on a fencing
// token, so that a former holder of a lease can do no harm.
//
// # Why
//
// A lease ends on its holder's side before anyone else can get it. But a paused
// holder can't act on that: a garbage collection, a stopped container, a suspended
// machine, a packet that waits in a switch. It wakes up, finishes the statement
// that it was about to send, and overwrites its successor's work. No lock service
// can prevent this. The resource can, by refusing a token smaller than one it has
// already seen. See Martin Kleppmann, "How to do distributed locking" (2016), and
// the request for fencing tokens in Redis' page "Distributed Locks with Redis".
//
// Lease.Token is such a token: it increases with each change of ownership of a
// name, on every provider, and stays the same through renewals. So an equal
// token comes from the same holder and is accepted. A smaller one is refused
// with an error that matches leasing.ErrStale. [Check] is that rule; [Gate], and
// [Gates] by name, apply it to resources in memory.
//
// # Where the resource is
//
// A package for each kind of resource applies the rule where the resource is
// stored, in one step with the write:
//
//   - sqlfence: a table in the resource's own SQL database, or a column of it.
//   - redisfence: one script with the write, which may be a script of yours.
//   - etagfence: objects and documents that are replaced under an ETag, as in
//     Azure Blob Storage, Cosmos DB or Amazon S3.
//   - httpfence: a service behind HTTP, and its clients.
//
// # What it does not do
//
//   - It does not order reads. A value read before the token was shown to the
//     resource may be overwritten by the former holder until then, and a write
//     computed from it loses that update. So show the token first, when the lease
//     begins, before anything is read.
//   - It protects only against writers that take part. A statement sent without the
//     check is not stopped.
//   - It remembers no better than the store of the token. A resource that lost
//     or deleted its token admits any token until it is shown the next.
//   - It compares tokens of one lease name. Two names have unrelated tokens: a
//     resource is protected by one name, always the same.
//   - It does not replace the lease: without one, holders with rising tokens
//     would refuse each other's work in turn.
package fencing
