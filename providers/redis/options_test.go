package redislease

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redlock"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestOptionsFromJSON(t *testing.T) {
	var options Options
	err := json.Unmarshal([]byte(`{
		"url": "redis://h", "mode": "sentinel", "master": "m", "sentinel_username": "u", "sentinel_password": "p",
		"prefix": "locks", "retention": "forever", "timeout": "3s", "max_ttl": "2m", "node_timeout": "50ms"}`), &options)
	require.NoError(t, err)
	require.Equal(t, Options{
		URL: "redis://h", Mode: Sentinel, Master: "m", SentinelUsername: "u", SentinelPassword: "p",
		Prefix: "locks", Retention: abstractions.Infinite, Timeout: 3 * time.Second, MaxTTL: 2 * time.Minute, NodeTimeout: 50 * time.Millisecond,
	}, options)

	for _, bad := range []string{`{"ttl": "3s"}`, `{"retention": 3}`, `{"retention": "3"}`, `{"bootstrap": true}`, `{"Client": {}}`, `{"tls": {}}`, `[]`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Options{}), bad)
	}
	require.ErrorIs(t, (&Options{}).UnmarshalJSON([]byte(`{"ttl": "3s"}`)), abstractions.ErrInvalid)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ttl": "3s"}`), &Options{}), "ttl")
}

// closed closes a client when the test ends.
func closed[T redis.UniversalClient](t testing.TB, client T) T {
	t.Cleanup(func() { client.Close() })
	return client
}

func newClient(t testing.TB, addr string) *redis.Client {
	return closed(t, redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1}))
}

// T52: options that are invalid, or would be ignored, are refused, and the error names the
// option.
func TestTrap_T52_OptionsThatCannotWork(t *testing.T) {
	client := newClient(t, "127.0.0.1:1")
	cluster := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}))
	pipeliner, err := client.AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { pipeliner.Close() })
	const three = "redis://h1,h2,h3"
	for _, test := range []struct {
		options Options
		names   []string
	}{
		{Options{}, []string{"Options", "none", "URL, or in Go Client, Clients"}},
		{Options{URL: "redis://h", Client: client}, []string{"URL and Client"}},
		{Options{Client: client, Clients: []redis.UniversalClient{}}, []string{"Client and Clients"}},
		{Options{URL: "h:6379"}, []string{"Options.URL", "redis://"}},
		{Options{URL: "http://h"}, []string{"Options.URL", "redis://"}},
		{Options{URL: "redis://"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis:///0"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://h1,,h2?mode=cluster"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://h:0"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://h:65536"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://[::1"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://::1"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://a b"}, []string{"Options.URL", "host"}},
		{Options{URL: "redis://h/x"}, []string{"Options.URL", "database"}},
		{Options{URL: "redis://h/0/1"}, []string{"Options.URL", "database"}},
		{Options{URL: "redis://h#x"}, []string{"Options.URL", "fragment"}},
		{Options{URL: "redis://user@h"}, []string{"Options.URL", "password"}},
		{Options{URL: "redis://user:@h"}, []string{"Options.URL", "password"}},
		{Options{URL: "redis://user:%zz@h"}, []string{"Options.URL", "%25"}},
		{Options{URL: "unix://h/path"}, []string{"Options.URL", "unix:///path"}},
		{Options{URL: "unix://"}, []string{"Options.URL", "unix:///path"}},
		{Options{URL: "unix:///s?mode=cluster"}, []string{"Options.Mode", "cluster", "single"}},
		{Options{URL: "redis://h?pool_size=many"}, []string{"Options.URL", "pool_size"}},
		{Options{URL: "redis://h?ttl=3s"}, []string{"Options.URL", "ttl"}},
		{Options{URL: "redis://h?mode=sentinel&master=m&ttl=3s"}, []string{"Options.URL", "ttl"}},
		{Options{URL: "redis://h?mode=cluster&ttl=3s"}, []string{"Options.URL", "ttl"}},
		{Options{URL: "redis://h?prefix=a&prefix=b"}, []string{"prefix", "one value"}},
		{Options{URL: "redis://h?prefix"}, []string{"Options.URL", "name=value"}},
		{Options{URL: "redis://h?retention=5"}, []string{"retention", "5"}},
		{Options{URL: "redis://h1,h2,h3?mode=redlock&bootstrap=true"}, []string{"bootstrap", "Provider.Bootstrap"}},
		{Options{URL: "redis://h?password=x"}, []string{"password", "before the host"}},
		{Options{URL: "redis://h?username=x"}, []string{"username", "before the host"}},
		{Options{URL: "redis://h?sentinel_password=x"}, []string{"sentinel_password", "Options.SentinelPassword"}},
		{Options{URL: "redis://h?master_name=x"}, []string{"master_name", "master"}},
		{Options{URL: "redis://h?addr=x:1"}, []string{"addr", "commas"}},
		{Options{URL: "redis://h?mode=cluster&read_only=true"}, []string{"read_only", "masters"}},
		{Options{URL: "redis://h?master=m&replica_only=true"}, []string{"replica_only", "masters"}},
		{Options{URL: three}, []string{"Options.Mode", "cluster, sentinel or redlock"}},
		{Options{URL: three, Mode: Single}, []string{"Options.Mode", "one host"}},
		{Options{URL: "redis://h", Mode: "cluster "}, []string{"Options.Mode", "single, cluster"}},
		{Options{URL: three + "/1", Mode: Cluster}, []string{"Options.URL", "database 0"}},
		{Options{URL: "redis://h", Mode: Sentinel}, []string{"Options.Master"}},
		{Options{URL: "redis://h", Mode: Cluster, Master: "m"}, []string{"Options.Master", "sentinel", "cluster"}},
		{Options{URL: "redis://h", SentinelUsername: "u"}, []string{"Options.SentinelUsername", "single"}},
		{Options{URL: "redis://h", SentinelPassword: "secret"}, []string{"Options.SentinelPassword", "single"}},
		{Options{Client: client, Mode: Sentinel, Master: "m"}, []string{"Options.Master", "single"}},
		{Options{Client: client, HeedsContext: true}, []string{"Options.HeedsContext", "ContextTimeoutEnabled"}},
		{Options{Client: cluster, HeedsContext: true}, []string{"Options.HeedsContext", "ContextTimeoutEnabled"}},
		{Options{URL: "redis://h", MaxTTL: time.Minute}, []string{"Options.MaxTTL", "redlock"}},
		{Options{URL: "redis://h", NodeTimeout: time.Second}, []string{"Options.NodeTimeout", "redlock"}},
		{Options{URL: three, Mode: Redlock, MaxTTL: time.Millisecond}, []string{"Options.MaxTTL", "200ms"}},
		{Options{URL: three, Mode: Redlock, MaxTTL: abstractions.Infinite}, []string{"Options.MaxTTL", "Infinite"}},
		{Options{URL: three, Mode: Redlock, NodeTimeout: time.Minute}, []string{"Options.NodeTimeout", "30s"}},
		{Options{URL: three, Mode: Redlock, NodeTimeout: -1}, []string{"Options.NodeTimeout", "1ms"}},
		{Options{URL: "redis://h", Retention: -1}, []string{"Options.Retention", "1ms"}},
		{Options{URL: "redis://h", Retention: abstractions.Infinite - 1}, []string{"Options.Retention", "87600h"}},
		{Options{URL: "redis://h", Timeout: -time.Second}, []string{"Options.Timeout", "1ms"}},
		{Options{URL: "redis://h", Timeout: abstractions.Infinite}, []string{"Options.Timeout", "1h"}},
		{Options{URL: "redis://h", Prefix: "a{b"}, []string{"Options.Prefix", "braces"}},
		{Options{URL: "redis://h", Prefix: "}"}, []string{"Options.Prefix", "braces"}},
		{Options{URL: "redis://h", Prefix: "a\nb"}, []string{"Options.Prefix", "control"}},
		{Options{URL: "redis://h", Prefix: "a\u0085"}, []string{"Options.Prefix", "control"}},
		{Options{URL: "redis://h", Prefix: "\xff"}, []string{"Options.Prefix", "UTF-8"}},
		{Options{URL: "redis://h", Prefix: strings.Repeat("x", 101)}, []string{"Options.Prefix", "100"}},
		{Options{URL: "redis://h", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, []string{"Options.TLS", "rediss://"}},
		{Options{URL: "rediss://h?skip_verify=true", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, []string{"Options.TLS", "skip_verify"}},
		{Options{Client: client, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, []string{"Options.TLS", "client"}},
		{Options{Client: client, Mode: Cluster}, []string{"Options.Mode", "single"}},
		{Options{Client: cluster, Mode: Single}, []string{"Options.Mode", "cluster"}},
		{Options{Client: client, Mode: Redlock}, []string{"Options.Mode", "single"}},
		{Options{Client: (*redis.Client)(nil)}, []string{"Options.Client", "*redis.Client"}},
		{Options{Client: (*redis.ClusterClient)(nil)}, []string{"Options.Client", "*redis.ClusterClient"}},
		{Options{Client: closed(t, redis.NewRing(&redis.RingOptions{}))}, []string{"Options.Client", "*redis.Ring"}},
		{Options{Client: pipeliner}, []string{"Options.Client", "*redis.AutoPipeliner"}},
		{Options{Client: struct{ redis.UniversalClient }{client}}, []string{"Options.Client", "*redis.Client"}},
	} {
		_, err := Open(t.Context(), test.options)
		require.ErrorIs(t, err, abstractions.ErrInvalid, "%v", test.names)
		for _, name := range test.names {
			require.ErrorContains(t, err, name)
		}
		require.NotContains(t, err.Error(), "secret")
	}
}

// T43: Redlock refuses one server, two or four servers, and the same server twice.
func TestTrap_T43_RedlockNeedsAMajorityOfIndependentServers(t *testing.T) {
	clients := func(addrs ...string) []redis.UniversalClient {
		all := make([]redis.UniversalClient, len(addrs))
		for i, addr := range addrs {
			all[i] = newClient(t, addr)
		}
		return all
	}
	failover := closed(t, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}}))
	cluster := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1"}}))
	for want, options := range map[string]Options{
		"with 0":                           {Clients: []redis.UniversalClient{}},
		"with 1":                           {Clients: clients("a:1")},
		"with 2":                           {Clients: clients("a:1", "b:1")},
		"with 4":                           {Clients: clients("a:1", "b:1", "c:1", "d:1")},
		`"with 1": want 3, 5`:              {URL: "redis://a", Mode: Redlock},
		`URL "with 2"`:                     {URL: "redis://a,b", Mode: Redlock},
		`Options.Clients "a:1"`:            {Clients: clients("a:1", "b:1", "a:1")},
		`Options.URL "a:6379": want each`:  {URL: "redis://a,b,a:6379", Mode: Redlock},
		`Clients[1] "a client of sentinel`: {Clients: []redis.UniversalClient{newClient(t, "a:1"), failover, newClient(t, "c:1")}},
		`Clients[2] "*redis.ClusterClient`: {Clients: append(clients("a:1", "b:1"), cluster)},
		`Clients[0] "<nil>"`:               {Clients: append([]redis.UniversalClient{nil}, clients("a:1", "b:1")...)},
	} {
		_, err := Open(t.Context(), options)
		require.ErrorIs(t, err, abstractions.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	for _, options := range []Options{{Clients: clients("a:1", "b:1", "c:1")}, {URL: "redis://a:1,a:2,a:3?mode=redlock"}, {URL: "redis://a,b,c,d,e?mode=redlock"}} {
		p, err := Open(t.Context(), options)
		require.NoError(t, err)
		require.Equal(t, "redlock", p.Capabilities().Provider)
		require.NoError(t, p.Close())
	}
}

func TestOptionsReachTheirPlaces(t *testing.T) {
	p, err := Open(t.Context(), Options{URL: "redis://h", Prefix: "locks", Retention: 2 * time.Hour})
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, script.Naming{Prefix: "locks", Retention: 2 * time.Hour}, p.topology.(*node.Single).Naming)

	p, err = Open(t.Context(), Options{URL: "redis://h", Retention: abstractions.Infinite})
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, script.Naming{Prefix: DefaultPrefix}, p.topology.(*node.Single).Naming)

	began := time.Now()
	_, err = openTest(t, Options{URL: silent(t), Timeout: 20 * time.Millisecond}).Inspect(context.Background(), abstractions.InspectRequest{Name: "n"})
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.Less(t, time.Since(began), providerkit.DefaultTimeout)

	p, err = OpenURL(t.Context(), "redis://h1,h2,h3?mode=redlock&max_ttl=90s")
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, 90*time.Second, p.Capabilities().MaxTTL)
	require.Equal(t, script.Naming{Prefix: DefaultPrefix, Retention: providerkit.DefaultRetention}, p.topology.(*redlock.Redlock).Naming)
	require.Equal(t, 90*time.Second, p.topology.(*redlock.Redlock).MaxTTL)
}

func TestCapabilitiesDistinguishTheModes(t *testing.T) {
	providers := map[string]bool{}
	for _, mode := range []Mode{Single, Sentinel, Cluster, Redlock} {
		c := capabilitiesOf(mode, time.Minute+time.Microsecond)
		providers[c.Provider] = true
		require.Equal(t, mode != Redlock, c.Infinite)
		require.Zero(t, c.MaxTTL%c.Granularity)
	}
	require.Equal(t, map[string]bool{"redis": true, "redis-cluster": true, "redlock": true}, providers)
}

// The application's own clients stay open, and clients that Open made are closed.
func TestCloseClosesWhatOpenMade(t *testing.T) {
	mine := newClient(t, "127.0.0.1:1")
	p, err := Open(t.Context(), Options{Client: mine})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NotErrorIs(t, mine.Ping(t.Context()).Err(), redis.ErrClosed)

	made := []redis.UniversalClient{newClient(t, "a:1"), newClient(t, "b:1"), newClient(t, "c:1")}
	p = open(Options{Mode: Redlock, MaxTTL: DefaultMaxTTL}, made, made)
	require.NoError(t, p.Close())
	for _, client := range made {
		require.ErrorIs(t, client.Ping(t.Context()).Err(), redis.ErrClosed)
	}
	require.NoError(t, p.Close(), "again")
}

func TestOptionsAreShownWithoutSecrets(t *testing.T) {
	o := Options{URL: "redis://:secret@h", Mode: Cluster, Prefix: "p", Retention: time.Hour, SentinelPassword: "secret"}
	const want = `redislease.Options{URL: (not shown), Mode: "cluster", SentinelPassword: (not shown), Prefix: "p", Retention: 1h0m0s}`
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, want, fmt.Sprintf(verb, o), verb)
		require.Equal(t, want, fmt.Sprintf(verb, struct{ Options }{o}.Options), verb)
	}
}
