package main

import (
	"fmt"
	"os"
)

// The backend is named by a flag or by LEASING_URL. Without one nothing is tried.
func Example() {
	fmt.Println(execute([]string{"bench"}, os.Stdout, os.Stdout))
	// Output:
	// leasing-dev: no backend: name one with --url or LEASING_URL
	// 125
}
