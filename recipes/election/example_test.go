package election_test

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/election"
)

// One process of a service. Each process runs the same code.
func Example() {
	ctx, shutDown := context.WithCancel(context.Background())
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "node-1"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = manager.Close(context.Background()) }()

	err = election.Run(ctx, manager, election.Options{
		Name:  "billing/leader",
		Lease: leasing.AcquireOptions{Metadata: map[string]string{"url": "http://node-1:8080"}},
		OnElected: func(ctx context.Context, lease *leasing.Lease) error {
			leader, err := election.Current(ctx, manager, "billing/leader") // any process can call Current
			if err != nil {
				return err
			}
			fmt.Println(leader.Owner, "leads at", leader.Metadata["url"])
			shutDown() // a signal, in a real service
			<-ctx.Done()
			return nil
		},
		OnResigned: func(_ *leasing.Lease, reason error) {
			fmt.Println("term over:", reason)
		},
	})
	fmt.Println("stopped:", err)
	// Output:
	// node-1 leads at http://node-1:8080
	// term over: context canceled
	// stopped: context canceled
}
