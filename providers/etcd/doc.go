// Package etcdlease is the provider of etcd: each name is a record, and a key that an etcd lease removes. Rights, set-up and
// what was measured are in docs/providers/etcd.md.
//
//	provider, err := etcdlease.OpenURL(ctx, "etcd://host1,host2,host3/leases?tls=true")
//
// # What it promises
//
// The promises of package leasing, on a cluster of etcd 3.5.13 or later:
//
//   - Every change is one transaction, on condition that the record and the claim are those that were read.
//   - A lease ends when etcd revokes its own lease, by the monotonic clock of etcd's leader. No other clock counts. It ends no
//     earlier than its TTL after the request that has granted or prolonged it was sent.
//   - The fencing token is max(record + 1, floor + 1, this process's time in microseconds), where floor is the highest token
//     that was forgotten. It rises without any clock. The time part covers what the cluster itself forgets: a restored
//     snapshot, or new members without data. A process whose clock is behind may give a lower one there.
//   - Waiters get hints, from one watch for all names of the process.
//
// # What it does not promise
//
// etcd frees the name of a dead holder up to 2 s after the TTL (Capabilities.Lateness). Exceptions are late, too: a new leader
// gives each lease its whole TTL anew, at most 1,000 are revoked a second, and 1.5 times the election timeout is the least.
// Hints come in no order, who waits is written nowhere, and no history is kept. Whoever may write under the prefix can end
// every lease. One whose keys somebody has deleted is lost, and its holder learns it at the next renewal.
//
// # How it works
//
// The rules, and the form of the record, are those of providerkit.Records. The lease jobs/daily is
//
//	leases/n/jobs/daily   the record; it stays
//	leases/c/jobs/daily   its holder's claim, attached to an etcd lease; it goes with it
//	leases/f/5a           floor: the highest token that was forgotten of some names
//
// A transaction writes the record and the claim. So whoever reads both at one revision sees who holds the name: the record
// says who, the claim's key whether he still does. Each claim has an etcd lease of its own, which another claim of the process
// may get after its release; a lease that claims share would outlive those that nobody renews. Another TTL means another
// one. So a delayed request changes nothing that followed, but that a KeepAlive may prolong it once. So may the renewal
// by which a holder learns of a Break that lets the lease run out.
//
// A renewal is a KeepAlive, and a read after it: etcd may prolong a lease while it deletes its keys (etcd-io/etcd#14758,
// #20547), and a member that was stopped while another was elected answers at once when it goes on: where the read shows a later
// term of the consensus the renewal is tried again. It writes nothing in the log of etcd's consensus. Those that are due
// together share streams and reads.
//
// Sweeping deletes a record and raises its floor in one transaction. A request that has found no record before is refused if
// the floor has changed, however late it arrives.
package etcdlease
