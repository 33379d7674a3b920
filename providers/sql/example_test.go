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

	provider, err := sqllease.OpenURL(ctx, "sqlite://"+filepath.Join(folder, "leases.db")+"?create=true")
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

// A grant tells when it ends by the database's clock, which others can read too.
func ExampleTimes() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "sqllease")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	provider, err := sqllease.Open(ctx, sqllease.Options{URL: "sqlite://" + filepath.Join(folder, "leases.db"), Create: true})
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
	// sqllease.Options{URL: (not shown), Schema: "ops", Retention: 72h0m0s, History: true} <nil>
}

// Tables made by an administrator, or by a migration tool of your own.
func ExampleProvider_Statements() {
	provider, err := sqllease.OpenURL(context.Background(), "postgres://app@db/app?schema=ops&table=locks")
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	fmt.Println(provider.Statements()[0])
	// Output:
	// CREATE SCHEMA IF NOT EXISTS "ops"
}
