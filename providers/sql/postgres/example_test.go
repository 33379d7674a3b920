package postgreslease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
)

// Options can be read from JSON. Printing options does not show a password.
func ExampleOptions() {
	var options postgreslease.Options
	err := json.Unmarshal([]byte(`{
		"url": "postgres://app:secret@db/app",
		"schema": "ops",
		"retention": "72h",
		"history": true
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// postgreslease.Options{URL: (not shown), Schema: "ops", Retention: 72h0m0s, History: true} <nil>
}

// An administrator or a migration tool can create the tables with these statements.
func ExampleProvider_Statements() {
	provider, err := postgreslease.OpenURL(context.Background(), "postgres://app@db/app?schema=ops&table=locks")
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	fmt.Println(provider.Statements()[0])
	// Output:
	// CREATE SCHEMA IF NOT EXISTS "ops"
}
