// Package cosmoslease keeps leases in Azure Cosmos DB for NoSQL: one document for
// each name, replaced under its ETag.
//
//	provider, err := cosmoslease.Open(ctx, cosmoslease.Options{
//		Endpoint: "https://account.documents.azure.com",
//		Database: "app", Container: "leases",
//		Auth:     auth.Options{Mode: auth.ManagedIdentity},
//	})
//	provider, err := cosmoslease.OpenURL(ctx, "cosmos://account.documents.azure.com/app/leases?auth=ManagedIdentity")
//
// # What it promises
//
// The promises of package leasing, on an account with one write region.
//
//   - Every change is one write of one document, on condition that it is still the
//     version that was read (If-Match), or that there is none yet. Whatever became
//     of earlier requests, whose replies were lost or which azcosmos has sent twice:
//     a conflict leads to a read, and what the document says decides.
//   - A lease is over by the service's time, when the Date of a read is later than
//     _ts, the time of the last write, by its TTL, a second, and a margin for clocks
//     that disagree ([Options].ClockSkew); or when this process has seen the document
//     unchanged for its TTL and a hundredth more, by its monotonic clock. No client's
//     wall clock has a part in it, and no time to live of the service.
//   - The fencing token is max(latest + 1, the service's time in microseconds). It
//     rises through release, expiry, Break, and the forgetting of names.
//   - Nothing but a wait is concluded from a read alone, which may be stale. That a
//     claim holds, that it is lost because the document knows nothing of it, that
//     Break met nobody: a conditional write has shown that what was read is so.
//   - A released or broken ID is refused from then on: each name remembers the last
//     8. Nothing is deleted by a release; see [Provider.Sweep].
//   - A claim that has run out and that nobody has taken over lives on when it is
//     renewed.
//   - A call ends soon after its context does, whatever azcosmos waits for.
//
// # What it does not promise
//
// A document or a container that somebody deletes takes its leases with it, and the
// latest token. What is claimed then has a token by the service's time, which has whole
// seconds: within one, a process orders the tokens that it gives itself, and those of
// several are ordered by their own clocks, as far as these are right to less than that
// second. So a token may repeat or fall where a document is deleted and claimed again
// within a second of its last claim (and what the clocks of the service's gateways
// disagree by), by another process; or while an acquire is under way, which has looked
// at the time before. Wait for longer than a call may last before you delete
// by hand; [Provider.Sweep] and [Options].ExpireDocuments do.
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
// (Capabilities.Lateness), or for about a hundredth of the TTL where a waiter has
// watched it from its last renewal on. The shortest TTL is 5 s. A step of the
// service's clocks by more than ClockSkew would free names early, or late.
//
// Consistency may be any but that of several write regions: a read that is stale
// shows an earlier ETag, and the write that follows is refused. Break without a token
// that met another lease than it had read, for that reason or because the first one
// ended meanwhile, touches neither and returns leasing.ErrUnavailable. With session
// consistency, the service's default, a provider sees what it has written itself;
// [Options].Consistency relaxes a stronger one, which makes reads cheaper. With eventual
// consistency conflicts take longer to settle, and Inspect and List may show what
// was; the same with the integrated cache of a dedicated gateway, so use the account's
// standard endpoint.
//
// # Requests and their cost
//
//	Acquire  a free name   2  a read and a replacement, or a creation the first time
//	Acquire  a held name   1  a read; 2 if one's own claim holds it
//	Renew                  1  a replacement
//	Release                1  a replacement; 2 without the state of a grant
//	Break                  2  a read and a replacement, also where nobody holds the name
//	Inspect, Ping          1  a read
//	List                   1  query per page, more where pages come short
//
// Where somebody else has written in between, or the reply to the last write was
// lost, two more: a read and the write again. The first call reads the account and
// the container as well; azcosmos reads the account every five minutes. It also
// repeats by itself, within the call and its context, reads that failed, requests
// that could not be sent, and writes that met a region without writes.
//
// A document is about 0.5 KB without metadata. A read of 1 KB costs 1 request unit
// and a write about 5, with session consistency and few indexed fields
// (learn.microsoft.com/azure/cosmos-db/understand-request-unit-consumption); up to
// 10 where all fields are indexed. A lease that is held with the default TTL of 30 s
// is renewed every 17 seconds, 5050 times a day: 25,000 to 50,000 request units, or
// 0.3 to 0.6 per second, so that 400 RU/s keep 700 to 1300 leases. Who waits for a
// name polls about once a second: 1 RU/s for each process and name. Containers that
// [Options].Create makes index the name alone. An infinite lease is verified at the
// manager's cadence, which costs the same.
//
// # Access
//
// Give the identity the built-in role Cosmos DB Built-in Data Contributor for the
// container, or a role of your own with [RoleDefinition]. Neither may create containers:
//
//	az cosmosdb sql container create -g GROUP -a ACCOUNT -d app -n leases -p /id --partition-key-version 2
//	az cosmosdb sql role assignment create -g GROUP -a ACCOUNT \
//	  --role-definition-id 00000000-0000-0000-0000-000000000002 \
//	  --scope /dbs/app/colls/leases --principal-id OBJECT-ID
//
// With a key the client's clock may be off by at most 15 minutes, or the service
// refuses its signatures (leasing.ErrDenied). A token is for the account's own
// address unless ClientOptions.Cloud has an audience for azcosmos.ServiceName.
//
// # How it works
//
// The partition key is the document's ID, so that each name is a partition of its
// own; another path than /id holds the same text. It needs partition keys of version 2
// (learn.microsoft.com/azure/cosmos-db/large-partition-keys): say so where a tool or a
// template creates the container. The ID is the name, with what an ID may not have
// written as ~2F: jobs/daily is jobs~2Fdaily. The document:
//
//	{
//	  "id": "jobs~2Fdaily", "v": 1, "name": "jobs/daily", "token": 1764000000000000,
//	  "holder": {"id": "...", "owner": "...", "metadata": {}, "ttl_ms": 30000, "acquired_ms": 1764000000000},
//	  "ended": ["r:...", "b:..."],
//	  "ttl": -1
//	}
//
// Owner and metadata are readable by whoever can read the container. The provider is
// tested against a fake in its own source, which states the service's documentation,
// against @vercel/cosmosdb-server, and against an account where COSMOS_ENDPOINT names
// one.
package cosmoslease
