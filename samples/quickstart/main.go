// Quickstart is the first program of the README: each process waits until it leads.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/distributedleasing/leasing"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

func main() {
	ctx := context.Background()
	provider, err := sqlitelease.OpenURL(ctx, "sqlite://leases.db?create=true")
	if err != nil {
		log.Fatal(err)
	}
	manager, err := leasing.NewManager(provider, leasing.Options{TTL: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = manager.Do(ctx, "leader", func(ctx context.Context, lease *leasing.Lease) error {
		for {
			fmt.Println("leading with token", lease.Token())
			select {
			case <-ctx.Done():
				return context.Cause(ctx) // the lease is lost, and another process may lead soon
			case <-time.After(time.Second):
			}
		}
	})
	log.Fatal(err)
}
