// Package bloblease keeps leases in Azure Blob Storage. Each name is a small blob, and the holder of the name has the service's
// own lease on the blob.
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
// The provider keeps the promises of package leasing. The service is strongly
// consistent within a region, and its clock alone decides when a lease has run out.
//
//   - A claim acquires the service's lease only after the record names the claim, so
//     the record of a leased blob names its holder: see below.
//   - The fencing token is max(latest + 1, the service's Date in microseconds). It
//     rises through release, expiry, Break, and the deletion of blobs and containers.
//     Date is in whole seconds; the client adds the fraction from its own clock. So a token may
//     repeat or fall if a blob is deleted by hand and the name is acquired again within a second
//     from a machine with a different clock. Sweep can't cause such a token.
//   - A released or broken ID is refused from then on, for as long as package
//     providerkit remembers the ID. A delayed request does nothing once its claim is
//     over.
//   - A claim that has run out is lost, even if no other claim has had the name
//     since. No renewal revives a broken lease, even a lease that was broken in the
//     portal or with az.
//   - A repeated acquire may extend the lease, but has no other effect.
//   - Other programs' data is not changed: content and other metadata of a blob are
//     kept. A folder, or a blob with content and no record of a lease, is an error.
//   - A call that fails after its first write returns leasing.ErrUnavailable, never
//     ErrThrottled, ErrDenied or ErrNotSetUp: retry the call.
//
// # What it does not promise
//
//   - A name may stay taken after its lease has run out: the service may refuse it to others for up
//     to a minute more (learn.microsoft.com/rest/api/storageservices/lease-blob, Remarks). A
//     released name is free at once.
//   - The network may deliver a copy of an acquire or a renewal after its claim has run out, and
//     before another claim writes the blob. The copy leases the name to that claim for another TTL.
//     No holder trusts that lease. It ends with the TTL, the claim's release, or a Break.
//   - Waiters are not queued and get no wake-ups: they poll, with one request per poll. The service
//     does not report the remaining time of a lease.
//   - After a failover of a geo-redundant account its last writes may be lost
//     (…/azure/storage/common/storage-disaster-recovery-guidance), including leases: a name can be granted while its holder still
//     trusts its lease. The next token is still greater. If two holders would do harm, check tokens (package fencing).
//   - TTLs are 15 to 60 s. Package leasing cuts longer TTLs to 60 s, unless renewal is left to the application: then they are an
//     error. An infinite lease needs [Options].Infinite. It is verified by requests like any other lease, and if its holder dies
//     it blocks the name until an operator breaks the lease.
//
// # How it works
//
// The rules, and the record, are those of cas.Records. A blob's metadata has one entry, "leasing". It contains the record, in
// base64url, with token, ID, owner, TTL and metadata of the latest claim, and the IDs that ended earlier. The entry also
// contains the ID under whose lease the record was written. (Other programs must not lease or write these blobs; the provider
// detects such programs, but does not support them.) The service's lease ID is the claim's ID if that ID is a GUID in the form
// of leasing.NewID.
//
// Keep content in separate blobs: an upload to a lease's blob replaces its metadata,
// and so the record. To recover, end the lease with its Release or with a Break without
// a token, and remove the content.
//
// Each call reads the record (HEAD), writes it if it changes, and then adjusts the service's lease
// to the record. The write is conditional on the record that was read, and the lease operation on
// the record that was written (If-Match: every write changes the ETag, a lease operation does not).
// The usual order is the opposite: acquire the lease, then write its holder. With the order used
// here, neither a crash nor a lost reply leaves anything behind:
//
//	what fails                     what is left             until
//	the read                       nothing
//	the write, or its reply        a claim without lease    3 s later others may overwrite it
//	the lease, or its reply        a claim, perhaps leased  its own retry, its Release, or the TTL
//
// A retry finds its own ID in the record, keeps the token, and sends the same acquire, which the
// service treats as the same lease. Another claim that arrives between the write and the lease
// finds the name reserved for 3 s by the service's clock. Release and Break record the end of the
// claim, under its lease, before they end that lease; from then on every request of the claim that
// is still in flight fails on the ETag, or finds no lease. If the process dies between these two
// steps, the next call that changes the name releases the lease, or breaks it with the grace in the
// record.
//
// A renewal with the state of a grant skips the read, and also the write if only the end of the
// lease changes: the request is then the service's own renewal, conditional on the record's ETag.
// If the TTL changes, the record is written first, and the lease is acquired once more with the new
// duration. A delayed copy of an earlier request has an older ETag and is refused, so a lease is
// never shorter than its last renewal granted. Decisions rely on the service's error codes
// (failures.go), not on the texts of replies or on this machine's clock.
//
// # Requests
//
// docs/providers/blob.md counts the requests. Open sends no request. The client library's
// retries are off: a method makes one attempt, and after a lost reply the outcome is
// unknown. A call starts over, at most 16 times, if the record changes between its read
// and its write.
//
// Each name leaves a blob with some hundred bytes of metadata behind: see
// [Provider.Sweep].
package bloblease
