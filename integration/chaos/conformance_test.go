// Package chaos_test runs the conformance suite over each provider inside the chaos
// wrapper. It is here because the wrapper's module requires no driver.
//
// To test a new provider, add it to the list in conformance_test.go.
package chaos_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a provider to wrap.
type backend struct {
	name string
	// url returns the URL for the test's leases.
	url  func(t *testing.T) string
	open func(t testing.TB, url string) (leasing.Provider, error)
	// ttl is the TTL of leases that run out during a check; 0 means the suite's
	// default.
	ttl time.Duration
	// slow marks a backend without short leases, on which the suite takes minutes.
	// It is skipped unless LEASING_TEST_SLOW is set.
	slow bool
}

// backends lists all backends. A new entry needs a name (as in
// integration/testreport), a URL and an OpenURL.
var backends = []backend{
	{name: "sqlite", url: sqlite, open: openSQLite},
	{name: "postgres", url: postgres, open: openPostgres},
	{name: "redis", url: serverURL("LEASING_TEST_REDIS"), open: openRedis},
	// Redlock waits for a server only for a part of the TTL.
	{name: "redlock", url: serverURL("LEASING_TEST_REDLOCK"), open: openRedis, ttl: 3 * time.Second},
	{name: "blob", url: azurite, open: openBlob, slow: true},
	{name: "cosmos", url: serverURL("LEASING_TEST_COSMOS"), open: openCosmos},
	{name: "s3", url: serverURL("LEASING_TEST_S3"), open: openS3},
	{name: "etcd", url: serverURL("LEASING_TEST_ETCD"), open: openEtcd},
	{name: "consul", url: serverURL("LEASING_TEST_CONSUL"), open: openConsul},
	{name: "mariadb", url: mariadb, open: openMariaDB},
}

func openSQLite(t testing.TB, url string) (leasing.Provider, error) {
	return sqlitelease.OpenURL(t.Context(), url)
}

func openPostgres(t testing.TB, url string) (leasing.Provider, error) {
	return postgreslease.OpenURL(t.Context(), url)
}

func openRedis(t testing.TB, url string) (leasing.Provider, error) {
	p, err := redislease.OpenURL(t.Context(), url)
	if err == nil && p.Capabilities().Provider == "redlock" {
		err = p.Bootstrap(t.Context()) // the suite's own servers, which are new
	}
	return p, err
}

func openBlob(t testing.TB, url string) (leasing.Provider, error) {
	return bloblease.OpenURL(t.Context(), url)
}

func openCosmos(t testing.TB, url string) (leasing.Provider, error) {
	return cosmoslease.OpenURL(t.Context(), url)
}

func openMariaDB(t testing.TB, url string) (leasing.Provider, error) {
	return mysqllease.OpenURL(t.Context(), url)
}

func openS3(t testing.TB, url string) (leasing.Provider, error) {
	return s3lease.OpenURL(t.Context(), url)
}

func openConsul(t testing.TB, url string) (leasing.Provider, error) {
	return consullease.OpenURL(t.Context(), url)
}

func openEtcd(t testing.TB, url string) (leasing.Provider, error) {
	return etcdlease.OpenURL(t.Context(), url)
}

// TestConformanceWithoutFaults checks that a wrapper with an empty plan has no effect.
func TestConformanceWithoutFaults(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			if b.name != "sqlite" {
				servertest.Long(t)
			}
			if b.slow && os.Getenv("LEASING_TEST_SLOW") == "" {
				t.Skip("takes five minutes; with LEASING_TEST_SLOW=1 it runs")
			}
			url := b.url(t)
			h := b.harness(url, chaos.Plan{})
			h.Peer = func(t testing.TB, _ leasing.Provider) leasing.Provider { return b.openInChaos(t, url, chaos.Plan{}) }
			providertest.Run(t, h)
		})
	}
}

// TestConformanceWithRulesThatNeverFire checks the same for rules that are evaluated
// for each operation and never match. The other client is not wrapped. The memory
// provider is tested with many more such rules in the wrapper's package; this test
// covers the behavior of a real client.
func TestConformanceWithRulesThatNeverFire(t *testing.T) {
	servertest.Long(t)
	never := chaos.Policy{Skip: 1 << 40}
	plan := chaos.Plan{Rules: []chaos.Rule{
		{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Hour}, When: never},
		{Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, When: never},
		{Fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}, When: never},
		{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: time.Hour}},
	}}
	b := backend{name: "redis", url: serverURL("LEASING_TEST_REDIS"), open: openRedis}
	t.Run(b.name, func(t *testing.T) {
		url := b.url(t)
		h := b.harness(url, plan)
		h.Peer = func(t testing.TB, _ leasing.Provider) leasing.Provider { return b.openBackend(t, url) }
		providertest.Run(t, h)
	})
}

// harness wraps a plan around each provider. The unreachable provider is a reachable
// provider behind the wrapper's outage.
func (b backend) harness(url string, plan chaos.Plan) providertest.Harness {
	outage := chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}}}}
	return providertest.Harness{
		New:         func(t testing.TB) leasing.Provider { return b.openInChaos(t, url, plan) },
		Unreachable: func(t testing.TB) leasing.Provider { return b.openInChaos(t, url, outage) },
		TTL:         b.ttl,
		Except: map[string]string{
			"Wait_AnUnusedWakeupIsPassedOn":                    "the wrapper has taken it, to lose or to delay it",
			"Trap_T93_AWaiterThatIgnoresItsWakeupIsPassedOver": "the wrapper takes the wake-ups of a waiter that is stuck",
		},
		Watched: b.name == "consul",
	}
}

func (b backend) openBackend(t testing.TB, url string) leasing.Provider {
	p, err := b.open(t, url)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func (b backend) openInChaos(t testing.TB, url string, plan chaos.Plan) leasing.Provider {
	p, err := chaos.Wrap(b.openBackend(t, url), plan, chaos.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// sqlite returns the URL of a file of the test's own.
func sqlite(t *testing.T) string {
	return "sqlite://" + filepath.Join(t.TempDir(), "leases.db") + "?create=true&history=true"
}

// mariadb returns the URL of tables of the test's own.
func mariadb(t *testing.T) string {
	return fmt.Sprintf("%s&history=true&table=chaos_%d_%d", serverURL("LEASING_TEST_MARIADB")(t), os.Getpid(), time.Now().UnixNano())
}

// azurite returns the URL of a container, which is created on first use.
func azurite(t *testing.T) string {
	const variable = "LEASING_TEST_AZURITE"
	serverURL(variable)(t)
	return "azblob:///chaos?create=true&connection_string_env=" + variable
}

// postgres returns the URL of the server with a schema of the test's own.
func postgres(t *testing.T) string {
	raw := serverURL("LEASING_TEST_POSTGRES")(t)
	schema := fmt.Sprintf("chaos_%d_%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // the test has ended
		admin, err := pgx.Connect(ctx, raw)
		require.NoError(t, err)
		defer admin.Close(ctx)
		_, err = admin.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		require.NoError(t, err)
	})
	u, err := url.Parse(raw)
	require.NoError(t, err)
	query := u.Query()
	query.Set("schema", schema)
	query.Set("create", "true")
	query.Set("history", "true")
	u.RawQuery = query.Encode()
	return u.String()
}

// serverURL returns the URL that an environment variable holds.
func serverURL(variable string) func(t *testing.T) string {
	return func(t *testing.T) string { return servertest.Require(t, variable) }
}
