package sqllease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "sqllease")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	provider, err := sqllease.OpenURL(ctx, "sqlite://"+filepath.Join(folder, "leases.db")+"?migrate=true")
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	err = leasing.Do(ctx, manager, "jobs/daily-maintenance", func(ctx context.Context, lease abstractions.Lease) error {
		fmt.Println("working under", lease.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// working under jobs/daily-maintenance
	// <nil>
}

// The low-level calls tell the database's time, and leave renewal to the caller.
func ExampleStore() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "sqllease")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "sqlite://" + filepath.Join(folder, "leases.db"), Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	store := provider.Store()

	claim, err := store.Acquire(ctx, abstractions.AcquireRequest{Name: "jobs/import", ID: abstractions.NewID(), Owner: "worker-1", TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("expires in", claim.ExpiresAt.Sub(claim.ServerTime).Round(time.Millisecond))

	_, err = store.Acquire(ctx, abstractions.AcquireRequest{Name: "jobs/import", ID: abstractions.NewID(), Owner: "worker-2", TTL: 30 * time.Second})
	var held *abstractions.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner)
	}

	claim, err = store.Renew(ctx, abstractions.RenewRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token, TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("expires in", claim.ExpiresAt.Sub(claim.ServerTime).Round(time.Millisecond))

	released, err := store.Release(ctx, abstractions.ReleaseRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token})
	fmt.Println("was held:", released.WasHeld, err)
	// Output:
	// expires in 30s
	// held by worker-1
	// expires in 1m0s
	// was held: true <nil>
}

// Options come from JSON as well, and never show a password.
func ExampleOptions() {
	var options sqllease.Options
	err := json.Unmarshal([]byte(`{
		"url": "postgres://app:secret@db/app",
		"schema": "ops",
		"retention": "72h",
		"history": true
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// sqllease.Options{URL: postgres, Schema: "ops", Table: "", Retention: 72h0m0s, History: true} <nil>
}

// Tables made by an administrator, or by a migration tool of your own.
func ExampleStore_Statements() {
	provider, err := sqllease.OpenURL(context.Background(), "postgres://app@db/app?schema=ops&table=locks")
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	fmt.Println(provider.Store().Statements()[0])
	// Output:
	// CREATE SCHEMA IF NOT EXISTS "ops"
}
