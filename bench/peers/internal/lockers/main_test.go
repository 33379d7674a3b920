package lockers

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// variables name the servers of a peer, by how many it runs on.
var variables = map[int]string{1: "LEASING_TEST_REDIS", 3: "LEASING_TEST_REDLOCK"}

// run is in all names of this run, whose keys are deleted at its end.
var run = "bench-test:" + rand.Text()

func unique() string { return run + "/" + rand.Text() }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		for _, variable := range variables {
			if url := os.Getenv(variable); url != "" {
				_ = Sweep(context.Background(), url, run) // else they expire within the hour
			}
		}
		os.Exit(status)
	}))
}

// server is the URL of what a peer runs on. A test whose backend is missing
// fails.
func server(t *testing.T, servers int) string {
	if servers == 0 {
		return ""
	}
	url := os.Getenv(variables[servers])
	require.NotEmpty(t, url, "%s must be the URL of Redis: run this with scripts/with-servers redis redlock --", variables[servers])
	return url
}
