// The first program of a user of providers/cosmos, on the account that LEASING_TEST_COSMOS
// names, or an emulator on this machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/distributedleasing/leasing"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
)

func main() {
	ctx := context.Background()
	provider, err := cosmoslease.OpenURL(ctx, cmp.Or(os.Getenv("LEASING_TEST_COSMOS"), "cosmos+http://:a2V5@127.0.0.1:8081/app/leases?create=true"))
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
