// The first program of a user of providers/sql/sqlite, on a new SQLite file in the working
// directory. The programs of other providers are made from this program: see consumer.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/distributedleasing/leasing"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

func main() {
	ctx := context.Background()
	provider, err := sqlitelease.OpenURL(ctx, cmp.Or(os.Getenv("LEASING_TEST_SQLITE"), "sqlite://leases.db?create=true"))
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
