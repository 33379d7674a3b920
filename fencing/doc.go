// Package fencing checks fencing tokens, so that a protected resource can refuse writes from
// former holders of a lease.
//
// # Why
//
// A holder stops trusting its lease before another client can acquire the lease.
// But a holder may be paused (by a garbage collection, a stopped container, a
// suspended machine). When it resumes, it finishes the statement that it was
// about to send, and overwrites its successor's work. A packet that was delayed
// in a switch has the same effect. No lock service can prevent such a write. The
// resource can refuse it, by refusing a token smaller than one it has already
// seen. See Martin Kleppmann, "How to do distributed locking" (2016), and the
// request for fencing tokens in Redis' page "Distributed Locks with Redis".
//
// Lease.Token is the token: on every provider it increases with each change of
// ownership of a name, and stays the same through renewals. An equal token comes
// from the same holder and is accepted. A smaller one is refused with an error
// that matches leasing.ErrStale. [Check] implements that rule; [Gate] applies it
// to one resource in memory, [Gates] to many.
//
// # Kinds of resources
//
// Each kind of resource has a package that applies the rule where the resource is stored,
// atomically with the write:
//
//   - sqlfence: a table in the resource's own SQL database, or a column of the resource's table.
//   - redisfence: one script checks the token and then writes, or runs your own Lua script.
//   - etagfence: objects and documents that are replaced under an ETag, as in
//     Azure Blob Storage, Cosmos DB or Amazon S3.
//   - httpfence: a service behind HTTP, and its clients.
//
// # What it does not do
//
//   - It does not order reads. Until the resource has seen the new token, the
//     former holder may still write. If you read a value before that, a write
//     computed from the value loses the former holder's update. So send the
//     token to the resource when the lease begins, before you read anything.
//   - It protects only against writers that use the check.
//   - It is only as durable as the token's storage. A resource that lost or deleted its token
//     admits whatever token comes next.
//   - It compares tokens of one lease name. Tokens of two names are unrelated,
//     so always protect a resource by a lease of the same name.
//   - It does not replace the lease: without mutual exclusion, each new token
//     would invalidate the work of its predecessor.
package fencing
