package managertest_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Run more histories than rapid's default of 100. A flag on the command line can set another number.
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
