// Package consullease keeps leases in Consul. Each name is an entry of its key-value
// store, which is replaced conditionally on its ModifyIndex.
//
//	provider, err := consullease.Open(ctx, consullease.Options{Address: "http://127.0.0.1:8500"})
//	provider, err := consullease.OpenURL(ctx, "consul://127.0.0.1:8500/leases")
//
// # Its weaknesses
//
// Consul does not record the time of a write. So a process takes over the lease of a dead
// holder only after it has itself seen the entry unchanged for 1.01 times the TTL plus
// 0.1 s. A process that was already watching when the holder died waits no
// longer than this time. A process whose first request comes later starts the watch at
// that moment, however long the holder has been dead. If you know that a holder is dead,
// break its lease.
//
// Waiters poll. For each page, List reads all entries under the prefix.
//
// Each renewal is a write on which a majority of Consul's servers must agree. So the
// provider suits hundreds of leases, not many thousands.
//
// Any client that may write under the prefix can end every lease by deleting its entry.
//
// # What it promises
//
// The provider keeps the promises of package leasing:
//
//   - Every change is one transaction with a single cas operation, with the ModifyIndex that
//     was read, or 0 if the entry does not exist yet. Reads use the mode consistent. If a
//     reply is lost, a read shows whether the request was applied.
//   - An answer counts only with Consul's mark: X-Consul-Index for a read, the key and a new
//     ModifyIndex for a write, X-Consul-Default-ACL-Policy for a refusal. Without the mark the
//     outcome is unknown, so an answer from a proxy in front of the agent does not end a lease or a
//     wait.
//   - The monotonic clock of the contending process decides when a lease has expired;
//     wall clocks have no effect. If the process's machine is suspended, the process waits longer.
//   - The fencing token is max(latest + 1, the time of the agent's answer in microseconds). The
//     increment makes the token rise across release, expiry and Break. The agents' clocks make it
//     rise even if entries are deleted or a snapshot is restored.
//
// # Why no sessions
//
// A session's TTL is only a lower bound: Consul 1.22.0 invalidates a session after twice
// its TTL, and starts to count again when a new leader is elected. It then keeps the key
// locked for LockDelay, 15 s by default. See agent/consul/session_ttl.go, and
// developer.hashicorp.com/consul/docs/dynamic-app-config/sessions.
//
// # How it works
//
// The rules, and the form of the record, are those of cas.Records. The lease
// jobs/daily is the key leases/jobs~2Fdaily (see [cas.Naming]). [Provider.Sweep]
// deletes idle names, conditionally on their ModifyIndex. Consul uses each index once, so a
// delayed deletion can't remove a newer entry.
package consullease
