// Package bloblease is the provider of Azure Blob Storage: each name is a small blob,
// and its lease is the service's own.
//
//	provider, err := bloblease.Open(ctx, bloblease.Options{
//		AccountURL: "https://account.blob.core.windows.net",
//		Container:  "leases",
//		Auth:       auth.Options{Mode: auth.ManagedIdentity},
//	})
//	manager, err := leasing.NewManager(provider, leasing.Options{})
//
// or, in one line of a configuration,
//
//	provider, err := bloblease.OpenURL(ctx, "azblob://account/leases?auth=ManagedIdentity")
//
// Prices, limits, permissions and set-up are in docs/providers/blob.md.
//
// # What it promises
//
// The promises of package leasing. The service is strongly consistent within a
// region, and its clock alone decides when a lease has run out.
//
//   - A claim takes a lease only under a record that names it, so the record of a
//     leased blob names its holder: see below.
//   - The fencing token is max(latest + 1, the service's Date in microseconds). It
//     rises through release, expiry, Break, and the deletion of blobs and
//     containers. Date has whole seconds, and the client adds the part of the second.
//     So a token may repeat or fall where a blob is deleted by hand, and claimed again
//     within a second from a machine whose clock disagrees. Sweep can't do that.
//   - A released or broken ID is refused from then on, as package providerkit
//     remembers it. A delayed request does nothing once its claim is over.
//   - A claim that has run out is lost, even if nobody has taken the name since. No
//     renewal revives one that was broken, be it in the portal or with az.
//   - A repetition of an acquire may prolong the lease, and changes nothing else.
//   - Nothing of others is harmed: content and other metadata of a blob are kept; a
//     folder, or a blob with content and no record of a lease, is an error.
//   - A call that fails after its first write says "unavailable", never "throttled",
//     "denied" or "not set up": repeat it.
//
// # What it does not promise
//
//   - No name is free as soon as its lease has run out: the service may refuse it
//     to others for up to a minute more
//     (learn.microsoft.com/rest/api/storageservices/lease-blob, Remarks). Released
//     ones are free at once.
//   - Waiters are not queued and not woken: they poll, with one request each time, and
//     the service does not tell how long a lease still runs.
//   - After a failover of a geo-redundant account its last writes may be lost
//     (…/azure/storage/common/storage-disaster-recovery-guidance), leases among
//     them: a name can be granted while its holder still trusts his lease. The
//     next token is greater all the same. Where two holders would do harm, check
//     tokens (package fencing).
//   - TTLs are 15 to 60 s. Package leasing grants a longer one by renewing more
//     often. A lease without an end needs [Options].Infinite; it is verified
//     by requests like any other, and blocks its name for ever if its
//     holder dies: an operator breaks it.
//
// # How it works
//
// The rules, and the record, are those of providerkit.Records. A blob's metadata has one
// entry, "leasing": the record, in base64url, with token, ID, owner, TTL and metadata of
// the latest claim, and the IDs that ended before it; beside it the ID under whose
// lease it was written. (Other programs that lease or write these blobs without it
// are met with care, but not supported.) The service's lease ID is the claim's ID if
// that is a GUID as NewID makes them.
//
// Keep content elsewhere, in blobs of its own: an upload into a lease's blob replaces
// its metadata, and the record with it. What can be done then is to end the lease, by
// its Release or by a Break without a token, and to remove that content.
//
// Each call looks (HEAD), writes the record if that changes, and has the service's lease
// follow: the write only if the record is still the one it has seen, the lease
// only if the record is still the one it has written (If-Match: a lease operation
// does not change the ETag, every write does). This is the opposite of the usual order,
// take the lease, then write who has it, and it is why neither a crash nor a lost
// reply leaves anything behind:
//
//	what fails                     what is left             until
//	the look                       nothing
//	the write, or its reply        a claim without lease    3 s later others may overwrite it
//	the lease, or its reply        a claim, perhaps leased  its own retry, its Release, or the TTL
//
// A retry finds its own ID in the record, keeps the token, and takes the lease, which
// to the service is the same lease again. Whoever else comes between write and lease
// finds the name reserved for 3 s by the service's clock. Release and Break write
// that the claim is over before they end the lease, under that lease; then every
// request of the claim that is still on its way meets another ETag, or no lease.
// If the process dies between the two, the next call that changes anything about the
// name ends the lease for it, or breaks it, with the grace that is in the record.
//
// A renewal with the state of a grant saves the look, and the write if nothing
// changes but the end of the lease: then it is the service's own renewal, under the
// record's ETag. Where the TTL changes, the record says so first, and then the lease is
// acquired anew, with that duration. A copy of an earlier request that was delayed has
// an older ETag and is refused, so a lease never has less time than its last renewal has
// granted. No reply decides anything by its text or by the clock of this machine: codes
// are in failures.go.
//
// # Requests
//
// docs/providers/blob.md counts them. Nothing is sent by Open. The library's own
// retries are off: a method makes one attempt, and an answer that was lost is
// "unknown". A call begins again, at most 16 times, where others have changed the
// record between its look and its write.
//
// A name that was used once leaves a blob of some hundred bytes of metadata behind:
// see [Provider.Sweep].
package bloblease
