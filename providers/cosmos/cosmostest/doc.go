// Package cosmostest is an Azure Cosmos DB account in memory, with the features that
// leases need, for tests and for work without an account:
//
//	server := cosmostest.Start(t)
//	provider, err := cosmoslease.OpenURL(ctx, server.URL)
//
// The account also runs as a process:
//
//	go run github.com/distributedleasing/leasing/providers/cosmos/cosmostest/cosmosfake@latest
//
// The account follows the service's documentation and that of other SDKs. It does not
// prove the service's behaviour. Where the two differ the service is right, and this
// package has a defect. The package may change without notice: it is for tests alone.
// The account has these features:
//
//   - Requests carry a signature by the account's key, or a bearer token. With a token,
//     operations on databases and containers get 403/5300.
//     learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
//   - The account lists its regions, and reports whether it has several write regions.
//   - Databases, containers with a partition key path, throughput and time to live.
//   - Items: create (409 if there is one), read, replace and delete, the last two with
//     If-Match (an ETag in quotes, or *). The partition key in the header has to be
//     the item's (400/1001). A missing item is 404/0, a missing container 404/1003.
//   - _etag changes with each write, _ts is the time of the last write in seconds.
//   - Session tokens. A read of a lagging replica is stale, unless the session token
//     includes the missing writes. A token from the future is 404/1002.
//   - Time to live: learn.microsoft.com/azure/cosmos-db/nosql/time-to-live. An expired
//     item is missing. The service does not document whether it still blocks a create
//     of its ID; an option decides.
//   - Queries of the form SELECT * FROM c WHERE STARTSWITH(c.id, @p) AND c.f < @n,
//     the second condition optional, in pages that may be short or empty.
//
// The status codes and substatuses are those of Azure/azure-sdk-for-java,
// sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
//
// A hook can decide the outcome of a request: see Account.Before. In a synctest bubble,
// serve the account over net.Pipe: see NewPipe.
package cosmostest
