// Package recipes_test runs recipes on real servers.
package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/open"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/recipes/filelease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const atMost = 2 * time.Minute // on a very slow machine

// onEach runs a test on each backend, beside the others. at is the URL of leases of the
// test's own, and root a folder.
func onEach(t *testing.T, test func(t *testing.T, at, root string)) {
	for name, url := range map[string]func(t *testing.T, root string) string{"sqlite": sqlite, "redis": redis, "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			test(t, url(t, root), root)
		})
	}
}

func sqlite(t *testing.T, root string) string {
	folder, err := filelease.StateFolder(root)
	require.NoError(t, err)
	return "sqlite://" + folder + "/leases.db?create=true"
}

func redis(t *testing.T, _ string) string {
	return with(named(t, "LEASING_TEST_REDIS"), fmt.Sprintf("prefix=recipes_%x&retention=1m", rand.Uint64()))
}

func postgres(t *testing.T, _ string) string {
	server, schema := named(t, "LEASING_TEST_POSTGRES"), fmt.Sprintf("recipes_%x", rand.Uint64())
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	})
	return with(server, "create=true&schema="+schema)
}

func named(t *testing.T, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		require.FailNow(t, "a server is required: run make test, or set "+variable)
	}
	return url
}

func with(url, query string) string {
	if strings.Contains(url, "?") {
		return url + "&" + query
	}
	return url + "?" + query
}

func provider(t *testing.T, at string) leasing.Provider {
	t.Helper()
	p, err := open.URL(t.Context(), at, sqllease.Opener(), redislease.Opener())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func manager(t *testing.T, p leasing.Provider, options leasing.Options) leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m
}

// pause is work.
func pause(d time.Duration) { <-time.After(d) }
