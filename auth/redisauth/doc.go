// Package redisauth authenticates go-redis clients to Azure Managed Redis and
// Azure Cache for Redis with Microsoft Entra ID tokens. It re-authenticates
// their open connections when tokens are replaced.
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
// or with a client of your own, which you close after the provider and before the credentials:
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
// The same credentials may serve several clients, including clients of a Cluster or of sentinels:
// redis.ClusterOptions and redis.FailoverOptions have the same field.
//
// # How it works
//
//   - New sends nothing. The first connection requests a token; all others use the same
//     token. The user name is the token's claim "oid": the object ID of the identity,
//     by which Azure names its users
//     (learn.microsoft.com/azure/redis/entra-for-authentication).
//   - A token is replaced when Entra ID suggests it (refresh_in), but at the latest when 5 minutes
//     of its lifetime are left, or a quarter of its lifetime if that is less. Failures are retried,
//     at first after a second, then at most half a minute apart, until Close. The old token is used
//     until it expires.
//   - go-redis sends AUTH with the new token on each pooled connection when it is
//     next idle. Subscription connections are not pooled: Azure closes them when
//     their token expires, and go-redis reconnects.
//   - A failure to get a token is logged and does not close connections. After the old
//     token has expired, calls that need a new connection return the failure as
//     an *auth.Error, which matches the errors of package leasing.
package redisauth
