// The first program of a user of providers/sql/postgres, on the server that LEASING_TEST_POSTGRES names.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/distributedleasing/leasing"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
)

func main() {
	ctx := context.Background()
	provider, err := postgreslease.Open(ctx, postgreslease.Options{
		URL: cmp.Or(os.Getenv("LEASING_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres"), Create: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = manager.Do(ctx, "jobs/daily-maintenance", func(_ context.Context, lease *leasing.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	if err := errors.Join(err, manager.Close(ctx), provider.Close()); err != nil {
		log.Fatal(err)
	}
}
