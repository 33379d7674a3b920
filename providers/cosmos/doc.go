// Package cosmoslease is the provider of Azure Cosmos DB for NoSQL: each name is a
// document, replaced under its ETag.
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
// Prices, permissions and set-up are in docs/providers/cosmos.md. Package cosmostest
// is an account for tests.
//
// # What it promises
//
// The promises of package leasing, on an account with one write region.
//
//   - Every change is one write of one document, on condition that it is still the
//     version that was read (If-Match), or that there is none yet. Replies may be
//     lost, and azcosmos may send a write twice: a conflict leads to a read, and the
//     document decides.
//   - A lease is over by the service's time, when the Date of a read is later than
//     _ts, the time of the last write, by its TTL, a second, and a margin for clocks
//     that disagree ([Options].ClockSkew); or when this process has seen the holder's
//     last write for its TTL and a hundredth more, by its monotonic clock. No client's
//     wall clock has a part in it, and no time to live of the service.
//   - The fencing token is max(latest + 1, the service's time in microseconds). It
//     rises through release, expiry, Break, and the forgetting of names.
//   - A read alone, which may be stale, leads to nothing but a wait, or to what can't
//     cease to be true. A conditional write confirms every other conclusion: that a
//     claim holds, that it has expired, that Break met nobody.
//   - A name refuses the IDs that were released or broken, as providerkit.Ended says.
//     A release deletes nothing; see [Provider.Sweep].
//   - A call ends with its context, whatever azcosmos waits for.
//
// # What it does not promise
//
// A document or a container that somebody deletes takes its leases with it, and the
// latest token. The next token is of the service's time, which has whole seconds, and
// the client adds the part of the second. So a token may repeat or fall where a document
// is deleted by hand, and claimed again within a second by another process whose clock
// disagrees, or by an acquire that was under way. Wait for longer than a call may last
// before you delete by hand; [Provider.Sweep] and [Options].ExpireDocuments do.
//
// With several write regions a write that one region has accepted is undone later by
// another's (learn.microsoft.com/azure/cosmos-db/conflict-resolution-policies):
// there two clients may hold a name. Such accounts are refused, also when they
// become such; azcosmos looks every five minutes.
//
// A region that fails for good may take the last writes with it, unless consistency
// is strong (learn.microsoft.com/azure/reliability/reliability-cosmos-db-nosql). A
// lease that is lost with it can be granted again while its holder still trusts it;
// its token is higher. Where two holders would do harm, check tokens: package
// fencing, and the example below for a document of Cosmos DB itself.
//
// _ts and Date are whole seconds of two clocks, so a lease that is not renewed blocks
// its name for 2 to 4 seconds beyond its TTL, up to 6 where the clocks disagree
// (Capabilities.Lateness, whatever the TTL is). A waiter that has watched it from its
// last renewal on has it sooner where a hundredth of the TTL is less. The shortest TTL
// is 5 s. A step of the service's clocks by more than ClockSkew would free names early,
// or late.
//
// Consistency may be any but that of several write regions: a read that is stale
// shows an earlier ETag, and the write that follows is refused. A Break without a token
// may meet another lease than it has read, since the read was stale or the first lease
// has ended meanwhile: it touches neither, and returns leasing.ErrUnavailable. With session
// consistency, the service's default, a provider sees what it has written itself;
// [Options].Consistency relaxes a stronger one, which makes reads cheaper. With eventual
// consistency conflicts take longer to settle, and Inspect and List may show what
// was; the same with the integrated cache of a dedicated gateway, so use the account's
// standard endpoint.
//
// # Requests
//
// docs/providers/cosmos.md counts them. Where somebody else has written in between,
// a call reads and writes again. Where the reply to a write was lost, a read shows
// whether it was applied. The first call reads the account and the container as well;
// azcosmos reads the account every five minutes. It also repeats by itself, within the
// call and its context, reads that failed, requests that could not be sent, and writes
// that met a region without writes.
//
// # How it works
//
// The rules, and the form of what is stored, are those of providerkit.Records. The
// document of jobs/daily, whose ID has what an ID may not have as ~2F:
//
//	{"id": "jobs~2Fdaily", "lease": {"v": 1, "name": "jobs/daily", "token": 1764000000000000, ...}, "ttl": -1}
//
// Its fields are in docs/providers/cosmos.md. One of another version is left alone, as
// leasing.ErrNotSetUp. The partition key is the document's ID, so that each name is a
// partition of its own; another path than /id holds the same text. It needs partition
// keys of version 2 (learn.microsoft.com/azure/cosmos-db/large-partition-keys): say so
// where a tool or a template creates the container.
//
// The provider is tested against package cosmostest, which states the service's
// documentation, against @vercel/cosmosdb-server, and against an account where
// COSMOS_ENDPOINT names one.
package cosmoslease
