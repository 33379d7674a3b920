// The first program of a user of auth/redisauth. It makes a client that would sign in
// to Azure Managed Redis, and sends no request.
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/redisauth"
	"github.com/redis/go-redis/v9"
)

func main() {
	credentials, err := redisauth.New(redisauth.Options{Auth: auth.Options{Mode: auth.ManagedIdentity}})
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{
		Addr:                         "name.region.redis.azure.net:10000",
		TLSConfig:                    &tls.Config{MinVersion: tls.VersionTLS12},
		StreamingCredentialsProvider: credentials,
	})
	fmt.Println(client)
	if err := errors.Join(client.Close(), credentials.Close()); err != nil {
		log.Fatal(err)
	}
}
