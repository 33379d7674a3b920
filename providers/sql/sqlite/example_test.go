package sqlitelease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "sqlitelease")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	provider, err := sqlitelease.OpenURL(ctx, "sqlite://"+filepath.Join(folder, "leases.db")+"?create=true")
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	err = manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
		fmt.Println("working under", lease.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// working under jobs/daily-maintenance
	// <nil>
}

// A grant contains the end of the lease by the database's clock, which other processes can also read.
func ExampleOpen() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "sqlitelease")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	provider, err := sqlitelease.Open(ctx, sqlitelease.Options{URL: "sqlite://" + filepath.Join(folder, "leases.db"), Create: true})
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()

	grant, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: "jobs/import", ID: abstractions.NewID(), Owner: "worker-1", TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	serverTime, expiresAt, _ := sqllease.Times(grant)
	fmt.Println("expires in", expiresAt.Sub(serverTime))

	_, err = provider.Acquire(ctx, abstractions.AcquireRequest{Name: "jobs/import", ID: abstractions.NewID(), Owner: "worker-2", TTL: 30 * time.Second})
	var held *abstractions.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner)
	}
	// Output:
	// expires in 30s
	// held by worker-1
}
