// Package recipes_test runs recipes on real servers.
package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
	"github.com/distributedleasing/leasing/recipes/filelock"
)

const atMost = 2 * time.Minute // on a very slow machine

// backend returns the URL for the leases of a test, which may be in a folder of the test's own.
type backend func(t *testing.T, root string) string

// backends are the backends on which every recipe runs. On the others, the time limits of leases
// are longer, or reads may lag.
var (
	backends = map[string]backend{"sqlite": sqlite, "redis": redis, "postgres": postgres}
	others   = map[string]backend{"redlock": redlock, "blob": azurite, "cosmos": cosmos, "s3": s3, "etcd": etcd, "consul": consul, "mariadb": mariadb}
)

// onEach runs a test on backends, in parallel.
func onEach(t *testing.T, backends map[string]backend, test func(t *testing.T, at, root string)) {
	for name, url := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			test(t, url(t, root), root)
		})
	}
}

func sqlite(t *testing.T, root string) string {
	folder, err := filelock.StateFolder(root)
	require.NoError(t, err)
	return "sqlite://" + folder + "/leases.db?create=true"
}

func redis(t *testing.T, _ string) string {
	return withQuery(serverURL(t, "LEASING_TEST_REDIS"), fmt.Sprintf("prefix=recipes_%x&retention=1m", rand.Uint64()))
}

func redlock(t *testing.T, _ string) string {
	return withQuery(serverURL(t, "LEASING_TEST_REDLOCK"), "prefix=recipes&retention=1m")
}

func azurite(t *testing.T, _ string) string {
	const variable = "LEASING_TEST_AZURITE"
	serverURL(t, variable)
	return "azblob:///recipes?create=true&connection_string_env=" + variable
}

func cosmos(t *testing.T, _ string) string {
	return withQuery(serverURL(t, "LEASING_TEST_COSMOS"), "create=true")
}

func s3(t *testing.T, _ string) string { return serverURL(t, "LEASING_TEST_S3") }

func etcd(t *testing.T, _ string) string { return serverURL(t, "LEASING_TEST_ETCD") }

func consul(t *testing.T, _ string) string { return serverURL(t, "LEASING_TEST_CONSUL") }

func mariadb(t *testing.T, _ string) string {
	return withQuery(serverURL(t, "LEASING_TEST_MARIADB"), fmt.Sprintf("table=recipes_%x", rand.Uint64()))
}

func postgres(t *testing.T, _ string) string {
	server, schema := serverURL(t, "LEASING_TEST_POSTGRES"), fmt.Sprintf("recipes_%x", rand.Uint64())
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	})
	return withQuery(server, "create=true&schema="+schema)
}

func serverURL(t *testing.T, variable string) string {
	t.Helper()
	return servertest.Require(t, variable)
}

func withQuery(url, query string) string {
	if strings.Contains(url, "?") {
		return url + "&" + query
	}
	return url + "?" + query
}

func openURL(ctx context.Context, at string) (leasing.Provider, error) {
	return open.URL(ctx, at, postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener())
}

func provider(t *testing.T, at string) leasing.Provider {
	t.Helper()
	p, err := openURL(t.Context(), at)
	require.NoError(t, err)
	if servers, is := p.(*redislease.Provider); is && p.Capabilities().Provider == "redlock" { // these servers have not seen the prefix
		require.NoError(t, servers.Bootstrap(t.Context()))
	}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func manager(t *testing.T, p leasing.Provider, options leasing.Options) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m
}

// pause simulates work.
func pause(d time.Duration) { <-time.After(d) }
