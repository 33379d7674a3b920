// The first program of a user of adapters/certmagic. It locks and unlocks a name in a storage.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/caddyserver/certmagic"

	"github.com/distributedleasing/leasing"
	certmagiclease "github.com/distributedleasing/leasing/adapters/certmagic"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	ctx := context.Background()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	storage := certmagiclease.New(&certmagic.FileStorage{}, manager, "tls/")
	certmagic.Default.Storage = storage
	if err := errors.Join(storage.Lock(ctx, "example.com"), storage.Unlock(ctx, "example.com"), manager.Close(ctx)); err != nil {
		log.Fatal(err)
	}
}
