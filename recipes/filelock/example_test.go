package filelock_test

import (
	"context"
	"fmt"
	"os"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/filelock"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

// An edit of two files, one of which does not exist yet.
func ExampleTree_Do() {
	root, err := os.MkdirTemp("", "tree-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = manager.Close(ctx) }()

	tree, err := filelock.New(manager, filelock.Options{Root: root, Name: "app"})
	if err != nil {
		panic(err)
	}
	err = tree.Do(ctx, []string{"./go.mod", "store/new.go"}, func(ctx context.Context, set *multilease.Set) error {
		for _, lease := range set.Leases() {
			fmt.Println(lease.Name())
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// app:/go.mod
	// app:/store/new.go
	// <nil>
}
