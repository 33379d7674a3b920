// Package redislease keeps leases in Redis: on one server, behind Sentinel, on a
// Cluster, or on a majority of independent servers (Redlock).
//
//	provider, err := redislease.OpenURL(ctx, "redis://127.0.0.1:6379")
//	provider, err := redislease.Open(ctx, redislease.Options{Client: client})
//
// # What it promises
//
// The provider keeps the promises of package leasing as long as Redis loses no
// acknowledged write. That depends on how Redis is run; see below.
//
//   - A request is one script on the server, so its read and its write are
//     atomic. The server's clock alone decides when a lease has run out. A
//     claim that has run out is lost.
//   - The record of a name is one key, written in one command together with its expiry. So a
//     crash never leaves a key without an expiry.
//   - The fencing token is max(latest + 1, the server's clock in microseconds). It rises
//     across release, expiry and Break, and after names were forgotten, unless the clock
//     was ahead for longer than [Options].Retention and has gone back: Redis itself
//     deletes expired keys, including their tokens. It also rises after a server has lost
//     its data, unless the servers' clocks differ by more than the time between the lost
//     grant and the next grant.
//   - A released or broken ID is refused from then on. Each name remembers the
//     last 8 such IDs, for Retention. A late copy of an acquire may acquire the name again, for
//     up to its TTL, if 8 other IDs of the name have ended since its own release; on a busy
//     name that takes a few milliseconds. Each name leaves one small key behind for Retention.
//   - Waiters are served in order, within a process and across processes. A release wakes
//     only the first waiter, and reserves the name for that waiter for 200 ms. If the
//     waiter's process has died, the next waiter is woken at once; if the process hangs,
//     after those 200 ms.
//   - Concurrent requests share a round trip. A call whose context ends returns
//     soon, whatever the connection does, and does not affect the others.
//
// # What it does not promise
//
// Redis replicates asynchronously: a write that was acknowledged is lost if the
// master fails before its replica has it, and WAIT does not change that
// (redis.io/docs/latest/operate/oss_and_stack/management/replication). A crash
// also loses writes that are not yet on disk, up to a second of them with
// appendfsync everysec (…/management/persistence). A lease that is lost in this
// way can be granted again while its holder still trusts it, for up to its TTL:
//
//   - One server: mutual exclusion holds while it runs, and across restarts only
//     with appendonly yes and appendfsync always. After FLUSHALL, or a restart
//     without its data, every name is free.
//   - Sentinel, Cluster: a failover may lose the latest grants and releases.
//   - Sentinel: a master that is cut off together with some of its clients goes on
//     serving them, and renews leases that the new master grants to others. This lasts
//     for longer than a TTL, until the cut ends, unless min-replicas-to-write and
//     min-replicas-max-lag stop it (…/management/sentinel). A Cluster's master stops
//     after cluster-node-timeout.
//   - Redlock: a minority of servers may fail, freeze or lose their data
//     without any effect on leases. A server that comes back empty casts no
//     vote until every lease that it may have held has run out.
//
// In each of these cases tokens still rise, so a resource that checks them
// refuses the former holder (package fencing), and no waiter is blocked for
// longer than a TTL. Check tokens wherever two holders would do harm; Redis' own
// page recommends it too (…/develop/clients/patterns/distributed-locks).
//
// Redis counts TTLs by the server's wall clock (…/commands/expire). If the clock steps
// forward by more than the margin of trust (leasing.Tuning.DriftFactor), names are
// freed early. After a step back, a lease may last longer, even a lease that had run out,
// but for at most one TTL from the next contender's request. An evicting
// maxmemory-policy may evict leases: use noeviction, or a separate server. With
// noeviction and no memory left, acquires fail with leasing.ErrThrottled, and held
// leases are still renewed.
//
// # Redlock
//
// Redlock is the algorithm of "Distributed Locks with Redis", plus the fencing tokens that its critics found missing
// (Kleppmann, "How to do distributed locking", 2016). An acquire asks all servers at once. It succeeds if, within the
// TTL less drift, a majority has granted the lease and has confirmed one token, at least as high as every token that
// these servers proposed. So any later majority includes a server that issues a higher token. Votes won without a
// majority are taken back. A repeated acquire, whose first reply was lost, gets the token of its claim, or a later one
// if a server that knows that token does not answer. Only one process may acquire under an ID; package leasing follows
// this rule. A renewal also needs a majority. It restores the lease on a server that lost the lease, unless that
// server has granted the name to another claim since, or the lease was released. A server that misses a renewal keeps
// the older metadata; readers see the metadata of most servers. A request returns as soon as its outcome is certain,
// so it does not wait for a dead or frozen server. Servers must not replicate each other. Their clocks must run at the
// same rate, but need not show the same time.
//
// A server that is new, or has lost its data, is in quarantine: it casts no vote for
// [Options].MaxTTL. The quarantine ends by the server's wall clock, but not before
// the same time has passed for a process that has seen the quarantine and still sends
// requests. If the server's clock is set forward before any process has sent it another
// request, the server may vote too early.
//
// Call [Provider.Bootstrap] to let new servers vote at once, but never on servers
// that may hold leases. All processes need the same MaxTTL. The process that finds
// that a server has lost its data sets the length of the quarantine, so longer
// leases of other processes could be granted a second time.
//
// # How it works
//
// The keys of a name share one hash tag ("{", "}" and "%" in names are written as
// %7B, %7D and %25). The comments of internal/script/scripts/prelude.lua describe
// their format:
//
//	leasing:{name}        the holder and its expiry, latest token, ended IDs
//	leasing:{name}:queue  the waiters
//	leasing:node          on a server of Redlock: a mark that its data are intact
//
// The package needs Redis 7.0 or later. A TTL is 100 ms or more; with Redlock it is 200
// ms to MaxTTL, and never leasing.Infinite. Clients are your own, or made by Open.
// The provider resends a script that a server has forgotten. Metadata and owner can be
// read by anyone who can read the keys. On a Cluster, a release is published to all
// servers, since a sharded channel per name would need a connection per server and
// name.
package redislease
