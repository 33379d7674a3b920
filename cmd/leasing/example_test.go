//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// A name that has never been used is free: the exit code is 1.
func Example() {
	folder, err := os.MkdirTemp("", "leasing")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	url := "sqlite://" + filepath.Join(folder, "leases.db") + "?create=true"
	fmt.Println(execute([]string{"inspect", "--url", url, "jobs/nightly"}, output.Streams{Out: os.Stdout, Err: os.Stderr}))
	// Output:
	// name   jobs/nightly
	// state  never held
	// token  0
	// 1
}
