// Package redislease keeps leases in Redis: on one server, behind Sentinel, on a
// Cluster, or on a majority of independent servers (Redlock).
//
//	provider, err := redislease.OpenURL(ctx, "redis://127.0.0.1:6379")
//	provider, err := redislease.Open(ctx, redislease.Options{Client: client})
//
// # What it promises
//
// The promises of package leasing, as far as Redis keeps its own. How far that
// is depends on how it is run; see below.
//
//   - A request is one script on the server, so nothing happens between its
//     look and its write. The server's clock alone decides when a lease has run
//     out, and a claim that has run out is lost.
//   - A name is one key, in which all that is known of it is written in one command,
//     together with how long to keep it: there is no moment at which it could stay for ever.
//   - The fencing token is max(latest + 1, the server's clock in microseconds). It
//     rises through release, expiry, Break, a server that lost its data, and the
//     forgetting of names, as long as the clock does not go back by more than
//     [Options].Retention, or the clocks of servers agree better than the time
//     that was lost.
//   - A released or broken ID is refused from then on: each name remembers the
//     last 8, for Retention. A copy of an acquire that arrives after its own release
//     and after 8 others of the name may take it once more, for up to its TTL: on a
//     busy name those are a few milliseconds. A name that was used once leaves one small
//     key behind, for Retention.
//   - Waiters are served in order, of one process and of many. A release wakes the
//     first alone, and reserves the name for it for 200 ms; if its process has
//     died the next one is woken at once, if it hangs, after that time.
//   - Requests that are made at the same time share a round trip. A call whose
//     context ends returns soon, whatever the connection does, and harms no other.
//
// # What it does not promise
//
// Redis replicates asynchronously: a write that was acknowledged is lost if the
// master fails before its replica has it, and WAIT does not change that
// (redis.io/docs/latest/operate/oss_and_stack/management/replication). It
// also loses what it had not written to disk, which with appendfsync everysec is a
// second's worth (…/management/persistence). A lease that is lost in this way can
// be granted again while its holder still trusts it, for up to its TTL:
//
//   - One server: mutual exclusion holds while it runs, and across restarts only
//     with appendonly yes and appendfsync always. After FLUSHALL, or a restart
//     without its data, every name is free.
//   - Sentinel, Cluster: a failover may lose the latest grants and releases.
//   - Sentinel: a master that is cut off goes on for clients that are cut off with it,
//     and renews leases which another grants again, not for a TTL but for as long as that
//     lasts; unless min-replicas-to-write and min-replicas-max-lag stop it
//     (…/management/sentinel). A Cluster's stops after cluster-node-timeout.
//   - Redlock: a minority of servers may fail, freeze or lose their data and
//     nobody notices. One that comes back empty casts no vote until every lease
//     that it may have held has run out.
//
// What still holds in each of these cases: tokens rise, so that a resource which
// checks them refuses the former holder (package fencing); and nobody waits
// longer than a TTL. Where two holders would do harm, check tokens: Redis' own
// page asks for it too (…/develop/clients/patterns/distributed-locks).
//
// Redis counts TTLs by the server's wall clock (…/commands/expire). A step forward
// by more than the margin of the holders' trust frees names early. After a step back a
// lease may last longer, also one that had run out: by one TTL from the moment at which
// the next contender asks.
// A maxmemory-policy that evicts may evict leases: use noeviction, or a server of
// their own. With noeviction and no memory left acquires are refused as
// leasing.ErrThrottled, and leases that are held go on.
//
// # Redlock
//
// The algorithm of "Distributed Locks with Redis", with what its critics found
// missing (Kleppmann, "How to do distributed locking", 2016). An acquire asks all
// servers at once and succeeds when a majority has granted it and confirmed a
// token of at least the highest among them, all within the TTL less drift. So
// any later majority has a server that hands out a higher token. What was won
// without a majority is taken back. An acquire that is repeated, since its reply was lost, gets
// the claim's token; or a later one, if a server that knows it does not answer. Only one process may
// acquire under an ID, as those of package leasing do. A renewal needs a majority too; a server that
// lost the lease takes it again if it has granted the name to nobody since, and
// not after the release. A server that misses a renewal keeps the metadata from
// before it, and those that most servers have are shown. An answer is not waited for once the outcome is certain,
// so a dead or frozen server costs nothing. Servers must not replicate each other,
// and their clocks must run at the same rate, not show the same time.
//
// A quarantine ends by the server's wall clock, and not before the time has passed for
// a process that found it and still asks. A server whose clock is set forward before
// anybody has asked it again may vote too early.
//
// New servers, like those that lost their data, cast no vote for [Options].MaxTTL.
// To start at once, call [Provider.Bootstrap] when, and only when, they are new. All
// processes need the same MaxTTL: a server stays out for that of the process which
// finds that it has lost its data, so leases that others hold for longer may be
// granted a second time.
//
// # How it works
//
// Keys of a name, under one hash tag ("{", "}" and "%" in names are written as %7B,
// %7D and %25); internal/script/scripts/prelude.lua has the particulars:
//
//	leasing:{name}        who holds it until when, latest token, ended IDs
//	leasing:{name}:queue  who waits
//	leasing:node          on a server of Redlock: that it has its data
//
// Clients come from you, or are made by Open. Redis 7.0 or later; scripts are
// sent again where a server has forgotten them. Metadata and owner are readable
// by whoever can read the keys. On a Cluster a release is published to all of its
// servers, since a channel per name would take a connection per server and name.
package redislease
