package netfault

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"regexp"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos/netfault"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
)

// backend is a kind of server behind a network that fails.
type backend struct {
	name, variable string
	// oneRequest means that an acquire is a single request: if the reply is lost,
	// the acquire was applied.
	oneRequest bool
	// open opens a client of the server at an address. The client keeps its data in a place that is
	// unique to this test.
	open func(ctx context.Context, address, unique string) (leasing.Provider, error)
	// clear removes the test's data; nil if the backend removes the data itself.
	clear func(ctx context.Context, address, unique string) error
}

var backends = []backend{
	{
		name: "redis", variable: "LEASING_TEST_REDIS", oneRequest: true,
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return redislease.Open(ctx, redislease.Options{URL: address, Prefix: unique})
		},
	},
	{
		name: "postgres", variable: "LEASING_TEST_POSTGRES", oneRequest: true,
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return postgreslease.Open(ctx, postgreslease.Options{URL: address, Schema: unique, Create: true})
		},
		clear: func(ctx context.Context, address, unique string) error {
			db, err := sql.Open("pgx", address)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+unique+" CASCADE")
			return err
		},
	},
	{
		name: "blob", variable: "LEASING_TEST_AZURITE",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			container := strings.ReplaceAll(unique, "_", "-")
			return bloblease.Open(ctx, bloblease.Options{ConnectionString: address, Container: container, Create: true})
		},
	},
	{
		name: "cosmos", variable: "LEASING_TEST_COSMOS",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return cosmoslease.Open(ctx, cosmoslease.Options{URL: address})
		},
	},
	{
		name: "s3", variable: "LEASING_TEST_S3",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return s3lease.Open(ctx, s3lease.Options{URL: address, Prefix: unique})
		},
	},
	{
		name: "etcd", variable: "LEASING_TEST_ETCD",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return etcdlease.Open(ctx, etcdlease.Options{URL: address, Prefix: unique})
		},
	},
	{
		name: "kubernetes", variable: "LEASING_TEST_KUBERNETES",
		open: func(ctx context.Context, address, _ string) (leasing.Provider, error) {
			return kuberneteslease.OpenURL(ctx, address)
		},
	}, {
		name: "consul", variable: "LEASING_TEST_CONSUL",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return consullease.OpenURL(ctx, address+"/"+unique)
		},
	}, {
		name: "mariadb", variable: "LEASING_TEST_MARIADB",
		open: func(ctx context.Context, address, unique string) (leasing.Provider, error) {
			return mysqllease.Open(ctx, mysqllease.Options{URL: address, Table: unique, Create: true})
		},
	},
}

// onEach runs a test on each backend, behind a network of the test's own.
func onEach(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) { test(t, newBed(t, backend)) })
	}
}

// bed is a server behind a proxy.
type bed struct {
	backend
	t      *testing.T
	proxy  *netfault.Proxy
	direct string // the address of the server
	behind string // the address of the proxy, in front of the server
	unique string
	name   string // of a lease
}

// host matches the server's host and port in a URL or a connection string.
var host = regexp.MustCompile(`127\.0\.0\.1:\d+|localhost:\d+`)

func newBed(t *testing.T, backend backend) *bed {
	t.Helper()
	direct := servertest.Require(t, backend.variable)
	target := host.FindString(direct)
	if u, err := url.Parse(direct); err == nil && target == "" {
		target = u.Host
	}
	require.NotEmpty(t, target, "the server's host and port in %s", backend.variable)
	proxy, err := netfault.Start(target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	unique := "netfault_" + strings.ToLower(rand.Text()[:8])
	if backend.clear != nil {
		t.Cleanup(func() { require.NoError(t, backend.clear(context.Background(), direct, unique)) })
	}
	return &bed{
		backend: backend, t: t, proxy: proxy, direct: direct, behind: strings.Replace(direct, target, proxy.Addr(), 1),
		unique: unique, name: unique + "/n",
	}
}

// provider opens a client of an address: the proxy's or the server's.
func (b *bed) provider(address string) leasing.Provider {
	b.t.Helper()
	p, err := b.open(b.t.Context(), address, b.unique)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, p.Close()) })
	return p
}

// warmUp opens the connection, and sends scripts and statements to the server, so that a reply that
// is lost later is not the reply to one of these preparations.
func (b *bed) warmUp(p leasing.Provider) {
	b.t.Helper()
	req := abstractions.AcquireRequest{Name: b.unique + "/warm", ID: abstractions.NewID(), Owner: "test", TTL: longTTL}
	for range 3 {
		grant, err := p.Acquire(b.t.Context(), req)
		require.NoError(b.t, err)
		require.NoError(b.t, p.Release(b.t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID, Token: grant.Token, State: grant.State}))
		req.ID = abstractions.NewID()
	}
}

func (b *bed) set(c netfault.Conditions) {
	b.t.Helper()
	require.NoError(b.t, b.proxy.Set(c))
}

func (b *bed) heal() {
	b.t.Helper()
	require.NoError(b.t, b.proxy.Heal())
}

func (b *bed) inspect(p leasing.Provider) leasing.Record {
	b.t.Helper()
	record, err := p.Inspect(b.t.Context(), abstractions.InspectRequest{Name: b.name})
	require.NoError(b.t, err)
	return record
}
