// Package showtest runs samples in tests.
package showtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/samples/internal/show"
)

// OnSQLite runs a sample on a temporary file.
func OnSQLite(t *testing.T, sample string, play show.Play) {
	t.Helper()
	run(t, sample, "", play)
}

// OnPostgres runs a sample on the server that LEASING_TEST_POSTGRES names.
func OnPostgres(t *testing.T, sample string, play show.Play) {
	t.Helper()
	run(t, sample, server(t, "postgres", "LEASING_TEST_POSTGRES"), play)
}

// OnRedis runs a sample on the server that LEASING_TEST_REDIS names.
func OnRedis(t *testing.T, sample string, play show.Play) {
	t.Helper()
	run(t, sample, server(t, "redis", "LEASING_TEST_REDIS"), play)
}

func server(t *testing.T, name, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		t.Fatalf("no server: run `scripts/with-servers %s -- go test ...`, or set %s to the URL of one", name, variable)
	}
	return url
}

func run(t *testing.T, sample, url string, play show.Play) {
	t.Helper()
	t.Parallel()
	require.NoError(t, show.Run(t.Context(), sample, url, t.Output(), play))
}
