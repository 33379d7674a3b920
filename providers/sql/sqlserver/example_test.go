package sqlserverlease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	sqlserverlease "github.com/distributedleasing/leasing/providers/sql/sqlserver"
)

func Example() {
	ctx := context.Background()
	provider, err := sqlserverlease.OpenURL(ctx, "sqlserver://app:secret@127.0.0.1:1433?database=app&create=true")
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
}

// Options can be read from JSON. Printing options does not show the URL, which may contain a
// password.
func ExampleOptions() {
	var options sqlserverlease.Options
	err := json.Unmarshal([]byte(`{
		"url": "sqlserver://app:secret@db.example.org?database=app",
		"pool_max_conns": 4,
		"history": true
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// sqlserverlease.Options{URL: (not shown), MaxConns: 4, History: true} <nil>
}
