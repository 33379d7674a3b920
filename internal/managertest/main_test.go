package managertest_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// More histories than rapid's hundred; the command line may ask for others.
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
