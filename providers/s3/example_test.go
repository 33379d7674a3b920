package s3lease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
)

func Example() {
	ctx := context.Background()
	provider, err := s3lease.OpenURL(ctx, "s3://my-bucket/leases?region=eu-central-1")
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

// Options can be read from JSON, and never print a secret key.
func ExampleOptions() {
	var options s3lease.Options
	err := json.Unmarshal([]byte(`{
		"bucket": "my-bucket",
		"endpoint": "https://store.example.org:9000", "path_style": true,
		"access_key": "app", "secret_key": "secret"
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// s3lease.Options{Bucket: "my-bucket", Endpoint: "https://store.example.org:9000", PathStyle: true, AccessKey: "app", SecretKey: (not shown)} <nil>
}
