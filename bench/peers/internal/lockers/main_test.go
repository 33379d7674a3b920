package lockers

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"go.uber.org/goleak"
)

// The variables that name one server, and three independent ones.
const (
	oneServer    = "LEASING_TEST_REDIS"
	threeServers = "LEASING_TEST_REDLOCK"
)

// run is part of all names of this test run. The run's keys are deleted at its end.
var run = "bench-test:" + rand.Text()

func unique() string { return run + "/" + rand.Text() }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		for _, variable := range []string{oneServer, threeServers} {
			if servers, err := clients(os.Getenv(variable), nil); err == nil {
				_ = servers.Sweep(context.Background(), run) // otherwise this run's keys remain for up to an hour
				_ = servers.Close()
			}
		}
		os.Exit(status)
	}))
}

// server returns the URL that a variable names.
func server(t *testing.T, variable string) string { return servertest.Require(t, variable) }
