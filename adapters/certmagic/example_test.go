package certmagiclease_test

import (
	"context"
	"fmt"

	"github.com/caddyserver/certmagic"

	"github.com/distributedleasing/leasing"
	certmagiclease "github.com/distributedleasing/leasing/adapters/certmagic"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Certificates stay in files that all processes share, while the locks are leases.
func Example() {
	ctx := context.Background()
	provider := memlease.New(memlease.Options{}) // in production: a backend that all processes share
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(ctx)
	storage := certmagiclease.New(&certmagic.FileStorage{Path: "/mnt/shared/certificates"}, manager, "tls/")
	config := certmagic.NewDefault()
	config.Storage = storage

	fmt.Println(storage.Lock(ctx, "example.com")) // certmagic calls Lock and Unlock
	record, err := manager.Inspect(ctx, "tls/example.com")
	fmt.Println(record.Held, err)
	fmt.Println(storage.Unlock(ctx, "example.com"))
	// Output:
	// <nil>
	// true <nil>
	// <nil>
}
