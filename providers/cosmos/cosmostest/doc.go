// Package cosmostest is an in-memory Azure Cosmos DB account, with the features that leases
// need, for tests and for development without an account:
//
//	server := cosmostest.Start(t)
//	provider, err := cosmoslease.OpenURL(ctx, server.URL)
//
// The account also runs as a process:
//
//	go run github.com/distributedleasing/leasing/providers/cosmos/cosmostest/cosmosfake@latest
//
// The account follows the service's documentation and that of other SDKs. It does not
// prove the service's behaviour: if the service behaves differently, this package has a
// defect. The package is only for tests, and may change without notice.
// The account has these features:
//
//   - Requests need a signature by the account's key, or a bearer token. With a token,
//     the creation of databases and containers is refused with 403/5300.
//     learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
//   - The account lists its regions, and reports whether it has several write regions.
//   - Databases, containers with a partition key path, throughput and time to live.
//   - Items: create (409 if the item exists), read, replace and delete, the last two with
//     If-Match (an ETag in quotes, or *). The partition key in the header has to be
//     the item's (400/1001). A missing item is 404/0, a missing container 404/1003.
//   - _etag changes with each write, and _ts is the time of the last write in seconds.
//   - Session tokens. A read of a lagging replica is stale, unless the session token
//     includes the missing writes. A session token from the future gets 404/1002.
//   - Time to live: learn.microsoft.com/azure/cosmos-db/nosql/time-to-live. An expired
//     item counts as missing. The service does not document whether the item still blocks
//     the creation of another with its ID, so Options.ExpiredBlocks decides.
//   - Queries of the form SELECT * FROM c WHERE STARTSWITH(c.id, @p) AND c.f < @n, where
//     the second condition is optional. Pages may be short or empty.
//
// The status codes and substatuses are those of Azure/azure-sdk-for-java,
// sdk/cosmos/azure-cosmos/docs/StatusCodes.md.
//
// A hook can decide the outcome of a request: see Account.Before. In a synctest bubble,
// serve the account over net.Pipe: see NewPipe.
package cosmostest
