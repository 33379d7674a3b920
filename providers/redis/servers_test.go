package redislease

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func claimOf(name string) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "o", TTL: time.Minute, Metadata: map[string]string{"k": "v"}}
}

func renewOf(req abstractions.AcquireRequest, grant abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: req.TTL, State: grant.State}
}

// requireWorking acquires a name, pings the server, and releases the name.
func requireWorking(t *testing.T, p *Provider) {
	t.Helper()
	req := claimOf("works")
	_, err := p.Acquire(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, p.Ping(t.Context()))
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TLS: true, Password: "secret"})
	requireWorking(t, openTest(t, Options{URL: server.URL(), TLS: server.TLSConfig()}))
	requireWorking(t, openTest(t, Options{URL: server.URL() + "?skip_verify=true"}))

	wrong := server.TLSConfig()
	wrong.ServerName = "example.org"
	for name, options := range map[string]Options{
		"an authority that nobody knows": {URL: server.URL()},
		"another name":                   {URL: server.URL(), TLS: wrong},
	} {
		_, err := openTest(t, options).Acquire(t.Context(), claimOf("name"))
		require.ErrorIs(t, err, abstractions.ErrUnavailable, name)
		var bad *tls.CertificateVerificationError
		require.ErrorAs(t, err, &bad, name)
	}
	_, err := openTest(t, Options{URL: "redis://:secret@" + server.Addr()}).Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrUnavailable, "no TLS")
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "a b.sock")
	redistest.Start(t, redistest.Options{Password: "se/cret", Args: []string{"--unixsocket", socket}})
	requireWorking(t, openTest(t, Options{URL: "unix://:se%2Fcret@" + dir + "/a%20b.sock?db=1"}))
}

// Databases and prefixes keep names apart.
func TestDatabasesAndPrefixesAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	host := "redis://" + server.Addr()
	var tokens []int64
	for _, options := range []Options{
		{URL: host}, {URL: host + "/3"}, {URL: host + "?db=4"}, {URL: host, Prefix: "other"}, {URL: host + "?prefix=leasing:"},
	} {
		grant, err := openTest(t, options).Acquire(t.Context(), claimOf("name"))
		require.NoError(t, err)
		tokens = append(tokens, grant.Token)
	}
	require.Len(t, tokens, 5)
	for db, keys := range map[string]string{"db0": "keys=3", "db3": "keys=1", "db4": "keys=1"} {
		info, err := server.Client(t).Info(t.Context(), "keyspace").Result()
		require.NoError(t, err)
		require.Contains(t, info, db+":"+keys)
	}
	_, err := openTest(t, Options{URL: host + "/3"}).Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrHeld)
}

// A server without memory, or without enough replicas, refuses new leases, and still
// serves held leases where possible.
func TestServerThatRefusesForNow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	p := openTest(t, Options{URL: server.URL()})
	held := claimOf("held")
	grant, err := p.Acquire(t.Context(), held)
	require.NoError(t, err)
	refuses := func() {
		t.Helper()
		_, err = p.Acquire(t.Context(), claimOf("new"))
		require.ErrorIs(t, err, abstractions.ErrThrottled)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "new"})
		require.NoError(t, err)
		require.Equal(t, abstractions.Record{Name: "new", Now: record.Now}, record, "nothing is left of the attempt")
	}

	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	refuses()
	_, err = p.Renew(t.Context(), renewOf(held, grant))
	require.NoError(t, err, "what is held goes on")
	longer := held
	longer.TTL *= 2
	_, err = p.Acquire(t.Context(), longer)
	require.ErrorIs(t, err, abstractions.ErrThrottled, "a repetition is an acquire too")
	_, err = p.Acquire(t.Context(), claimOf("held"))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "held", ID: held.ID}), "and can be given up")
	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())

	require.NoError(t, admin.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	refuses()
	require.NoError(t, admin.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	requireWorking(t, p)
}

// A replica refuses writes, but an application's client may be connected to a replica.
func TestReplicaRefuses(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 2, redistest.Options{})
	p := openTest(t, Options{URL: servers[1].URL()})
	require.NoError(t, servers[1].Client(t).ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(servers[0].Port())).Err())
	_, err := p.Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.NoError(t, servers[1].Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err())
	requireWorking(t, p)
}

// Foreign keys under our names are left alone, and do not affect other names, including
// names whose requests share the call.
func TestForeignKeysAreASetupError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	p := openTest(t, Options{URL: server.URL()})
	k := keysOf("foreign")
	require.NoError(t, admin.RPush(t.Context(), k.Name, "theirs").Err())
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			name := []string{"foreign", fmt.Sprint("good", i)}[i%2]
			_, err := p.Acquire(t.Context(), claimOf(name))
			if i%2 == 1 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.NotErrorIs(t, err, abstractions.ErrUnavailable)
			require.ErrorContains(t, err, "Options.Prefix")
		})
	}
	all.Wait()
	theirs, err := admin.LRange(t.Context(), k.Name, 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"theirs"}, theirs)
	exists, err := admin.Exists(t.Context(), k.Queue).Result()
	require.NoError(t, err)
	require.Zero(t, exists, "nothing was put beside them")
}

// An application's own clients typically retry, ignore the context's deadline, or read
// from replicas.
func TestUsersOwnClients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	plain := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer plain.Close()
	p := openTest(t, Options{Client: plain})
	requireWorking(t, p)
	require.Equal(t, "redis", p.Capabilities().Provider)

	cluster := redistest.StartCluster(t, 3)
	own := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()[:1], RouteRandomly: true})
	defer own.Close()
	p = openTest(t, Options{Client: own})
	requireWorking(t, p)
	hold(t, p, someNames("name/", 30)...)
	names, _ := listAll(t, p, abstractions.ListRequest{}, noOp)
	require.Len(t, names, 31)
	require.Equal(t, "redis-cluster", p.Capabilities().Provider)
}

// A client that reads from replicas still sends every script to a master, since a script may write.
func TestClientThatReadsFromReplicasOfACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 2, redistest.Options{})
	require.NoError(t, servers[1].Client(t).ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(servers[0].Port())).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{
		RouteRandomly: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: servers[0].Addr()}, {Addr: servers[1].Addr()}}}}, nil
		},
	})
	defer client.Close()
	p := openTest(t, Options{Client: client})
	for range 30 {
		requireWorking(t, p)
	}
	names, _ := listAll(t, p, abstractions.ListRequest{}, noOp)
	require.Equal(t, []string{"works"}, names)
}

// T44: a restarted server has lost the scripts.
func TestTrap_T44_ScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	p := openTest(t, Options{URL: server.URL()})
	requireWorking(t, p)
	require.NoError(t, server.Client(t).ScriptFlush(t.Context()).Err())
	requireWorking(t, p)
}

// T43: a server listed under two names would alone be a majority of three.
func TestTrap_T43_RedlockOfTheSameServer(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 2, redistest.Options{})
	err := openTest(t, Options{URL: fmt.Sprintf("redis://%s,%s,localhost:%d?mode=redlock", servers[0].Addr(), servers[1].Addr(), servers[0].Port())}).Bootstrap(t.Context())
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	require.ErrorContains(t, err, "servers 1 and 3")
	exists, err := servers[1].Client(t).Exists(t.Context(), script.Naming{Prefix: DefaultPrefix}.Marker()).Result()
	require.NoError(t, err)
	require.Zero(t, exists, "none was marked")
}

func TestBootstrapOfRedlockNeedsAllServers(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 3, redistest.Options{})
	options := Options{URL: redlockURL(servers) + "&timeout=2s"}
	servers[2].Kill()
	p := openTest(t, options)
	err := p.Bootstrap(t.Context())
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorContains(t, err, "server 3 of 3")
	servers[2].Restart()
	require.NoError(t, p.Bootstrap(t.Context()))
	requireWorking(t, p)
	requireWorking(t, openTest(t, options))
}

// A refused connection fails the call at once, since package leasing retries.
func TestRefusedConnectionIsNoHang(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, url := range []string{"redis://" + addr, "redis://" + addr + "?mode=cluster", "redis://" + addr + "?master=m"} {
		began := time.Now()
		_, err := openTest(t, Options{URL: url}).Acquire(t.Context(), claimOf("name"))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, abstractions.ErrThrottled)
		require.Less(t, time.Since(began), 5*time.Second, url)
	}
}
