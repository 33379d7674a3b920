// Package cosmoslease keeps leases in Azure Cosmos DB for NoSQL. Each name is a
// document, which is replaced conditionally on its ETag.
//
//	provider, err := cosmoslease.Open(ctx, cosmoslease.Options{
//		Endpoint: "https://account.documents.azure.com",
//		Database: "app", Container: "leases",
//		Auth:     auth.Options{Mode: auth.ManagedIdentity},
//	})
//	manager, err := leasing.NewManager(provider, leasing.Options{})
//
// or, in one line of a configuration,
//
//	provider, err := cosmoslease.OpenURL(ctx, "cosmos://account.documents.azure.com/app/leases?auth=ManagedIdentity")
//
// Prices, permissions and set-up are in docs/providers/cosmos.md. Package cosmostest is
// a fake account for tests.
//
// # What it promises
//
// The provider keeps the promises of package leasing, on an account with one write
// region.
//
//   - Every change is one write of one document. It is conditional on the version that
//     was read (If-Match), or on the absence of the document. If a reply is lost, or
//     azcosmos sends a write twice, a read after the conflict shows whether the write
//     was applied.
//   - A lease has run out if the Date of a read is later than _ts, the service's time of
//     the last write, by the TTL plus 1 s plus [Options].ClockSkew; or if this process
//     has seen no newer write for 1.01 times the TTL, by its monotonic clock. Neither a
//     client's wall clock nor the service's time to live matters.
//   - The fencing token is max(latest + 1, the service's time in microseconds). It
//     rises across release, expiry and Break, and after a name was forgotten.
//   - A read, which may be stale, leads only to a wait, or to a conclusion that stays
//     true. A conditional write confirms every other conclusion: that a claim holds
//     the name, that the claim has expired, that Break found the name free.
//   - A name refuses released and broken IDs, within the limits of providerkit.Ended. A
//     release does not delete the document; see [Provider.Sweep].
//   - A call ends with its context, even while azcosmos waits.
//
// # What it does not promise
//
// Deleting a document or a container deletes its leases and their latest tokens. The
// next token comes from the service's time in whole seconds, to which the client adds
// the fraction from its own clock. So a token may repeat or fall if a document is
// deleted by hand and the name is acquired again within a second, by a process with a
// different clock or by an acquire in flight. Before you delete a document by hand, wait
// for longer than a call may last. [Provider.Sweep] and [Options].ExpireDocuments wait
// for longer.
//
// With several write regions, a write in one region can undo a write that another
// region has accepted
// (learn.microsoft.com/azure/cosmos-db/conflict-resolution-policies), so two
// clients may hold a name. Such accounts are refused. If an account gets a second write
// region while a provider is open, azcosmos notices within five minutes.
//
// If a region fails permanently, the last writes may be lost, unless consistency is
// strong (learn.microsoft.com/azure/reliability/reliability-cosmos-db-nosql). A lease
// that is lost with the region can be granted again while its holder still trusts it;
// the new token is higher. If two holders would do harm, check tokens: see package
// fencing, and the example below for a document of Cosmos DB itself.
//
// _ts and Date are whole seconds of two clocks, so a lease that is not renewed blocks
// its name for 2 to 4 seconds beyond its TTL, or up to 6 if the clocks disagree
// (Capabilities.Lateness, for any TTL). A waiter that has watched the lease since its
// last renewal gets the name earlier, if a hundredth of the TTL is shorter than this
// delay. The shortest TTL is 5 s. If the service's clocks stepped by more than
// ClockSkew, names would be freed early or late.
//
// Every consistency level works: a stale read shows an earlier ETag, and the write that
// follows is refused. If the lease changes between the read and the write of a Break
// without a token, or the read was stale, the Break has no effect and returns
// leasing.ErrUnavailable. With session consistency, the service's default, a provider
// reads its own writes; [Options].Consistency relaxes a stronger level, which makes reads
// cheaper. With eventual consistency, conflicts take longer to resolve, and Inspect and
// List may show old states. The integrated cache of a dedicated gateway has the same
// effect, so use the account's standard endpoint.
//
// # Requests
//
// docs/providers/cosmos.md counts the requests. If another client writes between the read
// and the write of a call, the call repeats both. If the reply to a write was lost, a read
// shows whether the write was applied. The first call also reads the account and the
// container; azcosmos reads the account every five minutes. Within a call and its context,
// azcosmos also retries failed reads, requests that could not be sent, and writes to a region
// that accepts no writes.
//
// # How it works
//
// The rules, and the form of the record, are those of cas.Records. In the ID of
// a document, ~2F stands for a slash, which an ID can't contain. The document of
// jobs/daily:
//
//	{"id": "jobs~2Fdaily", "lease": {"v": 1, "name": "jobs/daily", "token": 1764000000000000, ...}, "ttl": -1}
//
// Its fields are in docs/providers/cosmos.md. A document of another version is left
// unchanged and reported as leasing.ErrNotSetUp. The partition key is the document's
// ID, so that each name is a partition of its own; with a path other than /id, that
// field holds the same text. Partition keys must be of version 2
// (learn.microsoft.com/azure/cosmos-db/large-partition-keys): set this version if a
// tool or a template creates the container.
//
// The provider is tested against package cosmostest, which implements the
// service's documentation, against @vercel/cosmosdb-server, and, if
// COSMOS_ENDPOINT is set, against a real account.
package cosmoslease
