package redisauth_test

import (
	"crypto/tls"
	"fmt"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/redisauth"
	"github.com/redis/go-redis/v9"
)

// A client of Azure Managed Redis can be passed to redislease as Options.Client.
func ExampleNew() {
	credentials, err := redisauth.New(redisauth.Options{Auth: auth.Options{Mode: auth.ManagedIdentity}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer credentials.Close()
	client := redis.NewClient(&redis.Options{
		Addr:                         "name.region.redis.azure.net:10000",
		TLSConfig:                    &tls.Config{MinVersion: tls.VersionTLS12},
		StreamingCredentialsProvider: credentials,
		ContextTimeoutEnabled:        true,
		DialerRetries:                1,
		MaxRetries:                   -1,
	})
	defer client.Close()
	fmt.Println(client)
	// Output: Redis<name.region.redis.azure.net:10000 db:0>
}
