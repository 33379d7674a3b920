// Package etcdlease keeps leases in etcd. Each name has a record and, while it is held, a key that is attached to an etcd
// lease. Permissions, set-up and measurements are in docs/providers/etcd.md.
//
//	provider, err := etcdlease.OpenURL(ctx, "etcd://host1,host2,host3/leases?tls=true")
//
// # What it promises
//
// The provider keeps the promises of package leasing, on a cluster of etcd 3.5.13 or later:
//
//   - Every change is one transaction. It is conditional on a record and a claim that have not changed
//     since they were read.
//   - A lease ends when etcd revokes the claim's etcd lease, by the monotonic clock of etcd's leader. No other clock counts. A
//     lease ends no earlier than its TTL after the request that granted or prolonged it was sent.
//   - The fencing token is max(record + 1, floor + 1, this process's time in microseconds), where floor is the highest token
//     that was forgotten. It rises without any clock. The time matters only if the cluster itself loses data: after a
//     restored snapshot, or with new, empty members. In that case a process whose clock is behind may issue a lower token.
//   - Waiters get wake-ups, from one watch for all names of the process.
//
// # What it does not promise
//
// etcd frees the name of a dead holder up to 2 s after the TTL (Capabilities.Lateness). This may take longer in three cases:
// a new leader restarts the whole TTL of each lease, at most 1,000 leases are revoked per second, and no TTL is shorter than
// 1.5 times the election timeout. Waiters are not served in order, Manager.Waiters is not supported, and no history is kept.
// Any client that may write under the prefix can end every lease by deleting its keys; the holder's next renewal then
// reports the loss.
//
// # How it works
//
// The rules, and the form of the record, are those of cas.Records. The lease jobs/daily is
//
//	leases/n/jobs/daily   the record; it stays
//	leases/c/jobs/daily   its holder's claim, attached to an etcd lease and deleted with it
//	leases/f/5a           floor: the highest forgotten token of some names
//
// A transaction writes the record and the claim. A read of both at one revision shows the holder: the record names the
// holder, and the claim's key shows whether that claim still holds the name. Each claim has its own etcd lease, since a
// shared lease would outlive the claims that are no longer renewed. After a release another claim of the process may reuse
// the etcd lease. A different TTL needs a different etcd lease. So a delayed request does not affect a later claim, except
// that a KeepAlive may prolong a lease once. The renewal that reports a Break without Immediate to the holder may also
// prolong the lease.
//
// A renewal is a KeepAlive and a read after it: etcd may prolong a lease while it deletes the lease's keys (etcd-io/etcd#14758,
// #20547), and a member that was stopped while another was elected answers at once when it resumes. If the read shows a later
// Raft term, the renewal fails as unavailable, and the manager retries. A renewal writes nothing to the Raft log. Renewals that
// are due together share streams and reads.
//
// Sweep deletes a record and raises its floor in one transaction. A request that found no record is refused if the floor
// has changed since then, however late the request arrives.
package etcdlease
