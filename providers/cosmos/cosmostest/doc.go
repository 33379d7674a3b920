// Package cosmostest is an Azure Cosmos DB account in memory, as far as leases need
// one, for tests and for work without an account:
//
//	server := cosmostest.Start(t)
//	provider, err := cosmoslease.OpenURL(ctx, server.URL)
//
// As a process it is
//
//	go run github.com/distributedleasing/leasing/providers/cosmos/cosmostest/cosmosfake@latest
//
// It states the service's documentation, and what other SDKs know of it; it is no
// proof of what the service does. Where the two differ the service is right, and
// this is to be changed. It may change without notice: it is for tests alone. What it
// states:
//
//   - Requests carry a signature by the account's key, or a bearer token; what they
//     may not do with a token (databases, containers) is 403/5300.
//     learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
//   - The account tells its regions, and whether it has several for writes.
//   - Databases, containers with a partition key path, throughput and time to live.
//   - Items: create (409 if there is one), read, replace and delete, the last two with
//     If-Match (an ETag in quotes, or *). The partition key in the header has to be
//     the item's (400/1001). A missing item is 404/0, a missing container 404/1003.
//   - _etag changes with each write, _ts is the time of the last one in seconds.
//   - Session tokens. A read of a lagging replica is stale unless the token says
//     what it must have seen. A token from the future is 404/1002.
//   - Time to live: learn.microsoft.com/azure/cosmos-db/nosql/time-to-live. An item
//     that has expired is not there; whether it still blocks a create of its ID is
//     not documented, and an option.
//   - Queries of the form SELECT * FROM c WHERE STARTSWITH(c.id, @p) AND c.f < @n,
//     the second condition optional, in pages that may be short or empty.
//
// Status codes and substatus: Azure/azure-sdk-for-java,
// sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
//
// What happens to a request can be decided by a hook: see Account.Before. In a
// synctest bubble serve it over net.Pipe: see NewPipe.
package cosmostest
