package fencing_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// A paused holder wakes up after its successor has begun to work.
func ExampleGate() {
	var printer fencing.Gate
	write := func(holder string, token int64) {
		err := printer.Do(context.Background(), token, func(context.Context) error {
			fmt.Println(holder, "prints")
			return nil
		})
		if errors.Is(err, leasing.ErrStale) {
			fmt.Println(holder, "is refused:", err)
		}
	}
	write("first", 33)
	write("second", 34)
	write("first", 33)
	// Output:
	// first prints
	// second prints
	// first is refused: stale fencing token: 33 refused, the resource has seen 34
}
