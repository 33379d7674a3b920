// The first program of a user of adapters/goose. It locks and unlocks with a session locker.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/pressly/goose/v3"

	"github.com/distributedleasing/leasing"
	gooselease "github.com/distributedleasing/leasing/adapters/goose"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	ctx := context.Background()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	locker := gooselease.New(manager, "app/migrate")
	_ = goose.WithLocker(locker)
	if err := errors.Join(locker.Lock(ctx, nil), locker.Unlock(ctx, nil), manager.Close(ctx)); err != nil {
		log.Fatal(err)
	}
}
