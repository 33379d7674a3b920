package multilease_test

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

// A transfer needs both accounts.
func ExampleDo() {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = manager.Close(ctx) }()

	err = multilease.Do(ctx, manager, []string{"account/9", "account/7"},
		func(ctx context.Context, set *multilease.Set) error {
			for _, lease := range set.Leases() {
				fmt.Println("holding", lease.Name())
			}
			return nil
		})
	fmt.Println("done:", err)
	// Output:
	// holding account/7
	// holding account/9
	// done: <nil>
}
