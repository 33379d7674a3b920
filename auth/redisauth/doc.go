// Package redisauth signs go-redis clients in to Azure Managed Redis, and to
// Azure Cache for Redis, with tokens of Microsoft Entra ID. It keeps their live
// connections signed in as tokens are replaced.
//
//	credentials, err := redisauth.New(redisauth.Options{Auth: auth.Options{Mode: auth.ManagedIdentity}})
//	...
//	provider, err := redislease.Open(ctx, redislease.Options{
//		URL:         "rediss://name.region.redis.azure.net:10000",
//		Credentials: credentials,
//	})
//	...
//	provider.Close(); credentials.Close() // in this order
//
// or with a client of your own, which is closed between the two:
//
//	client := redis.NewClient(&redis.Options{
//		Addr:                         "name.region.redis.azure.net:10000",
//		TLSConfig:                    &tls.Config{MinVersion: tls.VersionTLS12},
//		StreamingCredentialsProvider: credentials,
//		ContextTimeoutEnabled:        true,
//		DialerRetries:                1,
//		MaxRetries:                   -1,
//	})
//	provider, err := redislease.Open(ctx, redislease.Options{Client: client})
//
// The same credentials may serve several clients, and those of a Cluster or of
// sentinels: redis.ClusterOptions and redis.FailoverOptions have the field too.
//
// # How it works
//
//   - New sends nothing. The first connection requests a token; all others use
//     it. The user is the token's claim "oid": the object ID of the identity, by
//     which Azure names its users
//     (learn.microsoft.com/azure/redis/entra-for-authentication).
//   - A token is replaced when Entra ID suggests so (refresh_in), else 5 minutes
//     before its end, or with a quarter of its life left if that is less.
//     Failures are retried, at first after a second, then at most half a minute
//     apart, until Close. The old token is used as long as it is good.
//   - go-redis sends AUTH with the new token on each connection of its pools when
//     that is next idle. Connections that subscribe are not in a pool: Azure ends
//     them when their token ends, and go-redis connects anew.
//   - A failure to get a token closes no connection. It is logged. After the
//     token's end, calls that need a new connection return it, as an *auth.Error,
//     which matches the errors of package leasing.
package redisauth
