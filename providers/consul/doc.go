// Package consullease is the provider of Consul: each name is an entry of its key-value
// store, replaced under its ModifyIndex.
//
//	provider, err := consullease.Open(ctx, consullease.Options{Address: "http://127.0.0.1:8500"})
//	provider, err := consullease.OpenURL(ctx, "consul://127.0.0.1:8500/leases")
//
// # Its weaknesses
//
// Consul tells no time of a write. So a lease whose holder died is over for a process once
// that process has watched it for its TTL, a hundredth more, and a tenth of a second. A
// process that has watched since before the holder died waits no longer than that; one
// that asks for the first time afterwards waits as long again, however long the holder
// has been dead. Whoever knows that a holder is gone breaks its lease.
//
// Waiters poll. List reads all that is stored under the prefix, for each page.
//
// Each renewal is a write that a majority of Consul's servers agree on: it is made for
// hundreds of leases, and not for many thousands.
//
// Whoever may write under the prefix can end every lease, by deleting its entry.
//
// # What it promises
//
// The promises of package leasing:
//
//   - Every change is one transaction of one operation, cas, with the ModifyIndex that was
//     read, or 0 where there is no entry yet. Reads are of mode consistent. Where a reply is
//     lost a read shows what came of the request.
//   - No wall clock decides when a lease is over: a monotonic clock does, that of the
//     process which asks. While its machine is suspended it waits longer.
//   - The fencing token is max(latest + 1, the time of the agent's answer in microseconds).
//     It rises through release, expiry and Break by counting, and by the agents' clocks also
//     through the deletion of entries, and the restoration of a snapshot.
//
// # Why no sessions
//
// A session's TTL is a promise the other way: Consul 1.22.0 invalidates one after twice its
// TTL, from a new leader's election on, and keeps the key locked for a LockDelay more, 15 s
// by default. See agent/consul/session_ttl.go, and
// developer.hashicorp.com/consul/docs/dynamic-app-config/sessions.
//
// # How it works
//
// The rules, and the form of what is stored, are those of providerkit.Records. The lease
// jobs/daily is the key leases/jobs~2Fdaily (see [providerkit.Naming]). A name is forgotten
// by [Provider.Sweep], under its ModifyIndex: Consul gives each index once, so that a
// deletion that is delayed meets nothing else.
package consullease
