package etcdlease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
)

func Example() {
	ctx := context.Background()
	provider, err := etcdlease.OpenURL(ctx, "etcd://127.0.0.1:2379/leases")
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

// Options can be read from JSON, and never print a password.
func ExampleOptions() {
	var options etcdlease.Options
	err := json.Unmarshal([]byte(`{
		"endpoints": ["host1:2379", "host2:2379"],
		"username": "app", "password": "secret",
		"tls": true
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// etcdlease.Options{Endpoints: [host1:2379 host2:2379], Username: "app", Password: (not shown), TLS: true} <nil>
}
