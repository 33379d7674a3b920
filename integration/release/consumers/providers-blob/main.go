// The first program of a user of providers/blob, on the account that
// LEASING_TEST_AZURITE has the connection string of.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
)

func main() {
	ctx := context.Background()
	provider, err := bloblease.OpenURL(ctx, "azblob:///leases?connection_string_env=LEASING_TEST_AZURITE&create=true")
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
