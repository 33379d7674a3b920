// Package kuberneteslease is the provider of Kubernetes: each name is a Lease of
// coordination.k8s.io/v1 in a namespace, which kubectl get lease shows, and which the
// candidates of client-go's leaderelection respect, as it respects theirs.
//
//	provider, err := kuberneteslease.Open(ctx, kuberneteslease.Options{}) // in a pod
//	provider, err := kuberneteslease.OpenURL(ctx, "kubernetes://:token@host:6443/apps?ca_file=ca.crt")
//
// # What it promises
//
// The promises of package leasing:
//
//   - Every change is one write under the resourceVersion and the UID that were read, and reads
//     are etcd's. Where a reply is lost a read shows what came of the request.
//   - A lease is over by two times of the API servers, managedFields[].time of its last write
//     and the Date of an answer, whose clocks agree to Options.ClockSkew; or once a process
//     has watched that write for the TTL and a little more on its monotonic clock.
//   - The fencing token is max(latest + 1, the server's time in microseconds). It rises through
//     release, expiry, Break, the terms of others, and by the clock through deletion.
//   - Others may take a lease once leaseDurationSeconds have passed that they have watched:
//     the TTL, rounded up. A renewal moves renewTime by a second at least, since client-go
//     sees no less. It is respected from v0.27 on: before, candidates waited for their own
//     LeaseDuration, so TTLs must not exceed that.
//   - The lease of another library is held until this process has watched its latest write for
//     leaseDurationSeconds, a hundredth more and 0.1 s; for ever where there are none.
//
// # What it does not
//
// Whoever may delete or edit the object can end a lease before its holder knows. Where etcd
// is restored from a snapshot, API servers must be down for longer than the longest TTL.
//
// Waiters poll. List reads all leases of the namespace, for each page. Each renewal is a
// write to the etcd of the control plane: it is made for hundreds of leases, not thousands.
// client-go's leaders learn of an immediate Break at their next renewal, and may win again.
//
// # How it works
//
// The rules are those of providerkit.Records. The record is in an annotation, beside the
// spec as it was written: where they differ, others have written. A name that is no DNS
// subdomain, as jobs/daily, is the object jobs-daily--66bfde52..., by its SHA-256.
package kuberneteslease
