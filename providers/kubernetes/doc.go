// Package kuberneteslease keeps leases in Kubernetes. Each name is a Lease object of
// coordination.k8s.io/v1, which kubectl get lease shows. The candidates of
// client-go's leaderelection respect these leases, and this provider respects theirs.
//
//	provider, err := kuberneteslease.Open(ctx, kuberneteslease.Options{}) // in a pod
//	provider, err := kuberneteslease.OpenURL(ctx, "kubernetes://:token@host:6443/apps?ca_file=ca.crt")
//
// # What it promises
//
// The provider keeps the promises of package leasing:
//
//   - Every change is one write, conditional on the resourceVersion and the UID that were
//     read. Reads are served from etcd. If a reply is lost, a read shows whether the
//     request was applied.
//   - An answer counts only with the API server's mark: a Status, or the lease with its resourceVersion
//     and, after a write, with the annotation that was sent. Without the mark the outcome is unknown,
//     so a proxy in front of the server can't end a lease or a wait.
//   - Two times of the API servers decide when a lease has expired: managedFields[].time of
//     its last write, and the Date of an answer. Their clocks must agree within Options.ClockSkew. A
//     lease has also expired once a process has seen no newer write for the TTL and a little more, by
//     its monotonic clock.
//   - The fencing token is max(latest + 1, the server's time in microseconds). The counter
//     makes it rise across release, expiry, Break and the terms of other libraries, and the
//     clock makes it rise across deletion.
//   - Candidates of client-go may acquire a lease once they have watched it for
//     leaseDurationSeconds, which is the TTL, rounded up. A renewal moves renewTime by at
//     least 1 s, since client-go sees no smaller change. client-go respects
//     leaseDurationSeconds from v0.27 on: older candidates waited for their own
//     LeaseDuration, so TTLs must not exceed that duration.
//   - A lease of another library counts as held until this process has seen no newer write
//     for 1.01 times leaseDurationSeconds plus 0.1 s, or forever if leaseDurationSeconds is
//     not set.
//
// # What it does not promise
//
// Any client that may delete or edit the object can end a lease before its holder notices. If
// etcd is restored from a snapshot, the API servers must be down for longer than the longest TTL.
//
// Waiters poll. For each page, List reads all leases of the namespace. Each renewal is a
// write to the control plane's etcd. So the provider suits hundreds of leases, not
// thousands. client-go's leaders notice an immediate Break at their next renewal, and may
// win the next election.
//
// # How it works
//
// The rules are those of cas.Records. The record is in an annotation, with a
// copy of the spec of the same write: if the spec differs, another program has written
// the object. A name that is not a DNS subdomain, such as jobs/daily, becomes the object
// jobs-daily--66bfde52..., with part of its SHA-256.
package kuberneteslease
