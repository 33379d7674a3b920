// The first program of a user of providers/sql, on a new SQLite file in the working
// directory. Those of other providers are made of it: see consumer.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/distributedleasing/leasing"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

func main() {
	ctx := context.Background()
	provider, err := sqllease.OpenURL(ctx, cmp.Or(os.Getenv("LEASING_TEST_SQLITE"), "sqlite://leases.db?create=true"))
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
