// The first program of a user of providers/redis, on the server that LEASING_TEST_REDIS
// names, or the one that usually runs on a developer's machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/distributedleasing/leasing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

func main() {
	ctx := context.Background()
	provider, err := redislease.OpenURL(ctx, cmp.Or(os.Getenv("LEASING_TEST_REDIS"), "redis://127.0.0.1:6379"))
	if err != nil {
		log.Fatal(err)
	}
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = leasing.Do(ctx, manager, "jobs/daily-maintenance", func(_ context.Context, lease leasing.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err := errors.Join(err, manager.Close(ctx), provider.Close()); err != nil {
		log.Fatal(err)
	}
}
