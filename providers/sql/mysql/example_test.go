package mysqllease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
)

func Example() {
	ctx := context.Background()
	provider, err := mysqllease.OpenURL(ctx, "mysql://app:secret@127.0.0.1:3306/app?create=true")
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
	var options mysqllease.Options
	err := json.Unmarshal([]byte(`{
		"url": "mysql://app:secret@db.example.org/app",
		"pool_max_conns": 4,
		"history": true
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// mysqllease.Options{URL: (not shown), MaxConns: 4, History: true} <nil>
}
