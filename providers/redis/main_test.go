package redislease

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs many tests at a time, however few the processors: they wait for
// servers and for leases to run out. The flag -parallel still rules.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// go-redis: it sees a second after Close that it may end.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
