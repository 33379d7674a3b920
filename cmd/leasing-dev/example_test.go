package main

import (
	"fmt"
	"os"
)

// The backend is named by a flag or by LEASING_URL. Without a backend, bench fails.
func Example() {
	fmt.Println(execute([]string{"bench"}, os.Stdout, os.Stdout))
	// Output:
	// leasing-dev: no backend: name one with --url or LEASING_URL
	// 125
}
