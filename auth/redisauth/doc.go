// Package redisauth signs clients of go-redis in to Azure Managed Redis, and to
// Azure Cache for Redis, with tokens of Microsoft Entra ID, and keeps their live
// connections signed in as tokens are replaced.
//
//	credentials, err := redisauth.New(redisauth.Options{Auth: auth.Options{Mode: auth.ManagedIdentity}})
//	...
//	client := redis.NewClient(&redis.Options{
//		Addr:                         "name.region.redis.azure.net:10000",
//		TLSConfig:                    &tls.Config{MinVersion: tls.VersionTLS12},
//		StreamingCredentialsProvider: credentials,
//		ContextTimeoutEnabled:        true,
//		DialerRetries:                1,
//		MaxRetries:                   -1,
//	})
//	provider, err := redislease.Open(ctx, redislease.Options{Client: client})
//	...
//	provider.Close(); client.Close(); credentials.Close() // in this order
//
// Without a client of your own, redislease makes one:
//
//	provider, err := redislease.Open(ctx, redislease.Options{
//		URL:         "rediss://name.region.redis.azure.net:10000",
//		Credentials: credentials,
//	})
//
// The same credentials may serve several clients, and those of a Cluster or of
// sentinels: redis.ClusterOptions and redis.FailoverOptions have the field too.
//
// # What happens
//
//   - New sends nothing. The first connection asks for a token; all others use
//     it. The user is the token's claim "oid": the object ID of the identity, by
//     which Azure names its users
//     (learn.microsoft.com/azure/redis/entra-for-authentication).
//   - A token is replaced when Entra ID suggests so (refresh_in), else 5 minutes
//     before its end, or with a quarter of its life left if that is less.
//     Failures are repeated, at first after a second, then at most half a minute
//     apart, until Close. The token at hand is used as long as it is good.
//   - go-redis sends AUTH with the new token on each connection of its pools when
//     that is next idle. Connections that subscribe are not in a pool: Azure ends
//     them when their token ends, and go-redis connects anew.
//   - A failure to get a token closes no connection. It is logged; and returned by
//     calls that need a new connection after the token's end, as an *auth.Error,
//     which matches the errors of package leasing.
//
// # Why not go-redis-entraid
//
// As of 1.0.6 it stops replacing tokens for good after three failures in a row, or
// after one that is not a timeout; such a failure closes live connections; a
// failed start leaves a lock held; it asks for a token at construction and starts
// a goroutine that nothing stops unless a client connects and closes; and it takes
// no azcore.TokenCredential.
//
// # Redis without Azure
//
// Redis itself knows no tokens. To try this package, make an ACL user named by the
// object ID, whose password is the token.
package redisauth
