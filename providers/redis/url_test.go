package redislease

import (
	"crypto/tls"
	"net/url"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
)

func TestURLIsTakenApart(t *testing.T) {
	for text, want := range map[string]location{
		"redis://h":                              {scheme: "redis", hosts: []string{"h"}},
		"rediss://h:1/":                          {scheme: "rediss", hosts: []string{"h:1"}, path: "/"},
		"redis://a.b-c_d:1,10.0.0.1,[::1]:2/3":   {scheme: "redis", hosts: []string{"a.b-c_d:1", "10.0.0.1", "[::1]:2"}, path: "/3"},
		"redis://:p@h":                           {scheme: "redis", password: "p", hosts: []string{"h"}},
		"redis://u%40x:p%2F%3F%23%40%25:+ @h/15": {scheme: "redis", user: "u@x", password: "p/?#@%:+ ", hosts: []string{"h"}, path: "/15"},
		"redis://u:p@q@h":                        {scheme: "redis", user: "u", password: "p@q", hosts: []string{"h"}},
		"unix:///run/redis%20a.sock":             {scheme: "unix", path: "/run/redis a.sock"},
		"unix://u:p@/run/x@y":                    {scheme: "unix", user: "u", password: "p", path: "/run/x@y"},
	} {
		l, err := (&Options{URL: text}).locate()
		require.NoError(t, err, text)
		want.query = url.Values{}
		require.Equal(t, want, l, text)
	}
	l, err := (&Options{URL: "redis://a,b:1,[::1],[::2]:2"}).locate()
	require.NoError(t, err)
	require.Equal(t, []string{"a:7", "b:1", "[::1]:7", "[::2]:2"}, l.addrs("7"))
}

// T52: each field that has a tag is read from the URL.
func TestTrap_T52_OptionsFromURLAreUsed(t *testing.T) {
	o := Options{URL: "redis://h/4?mode=redlock&master=m&sentinel_username=su&prefix=a%20b&retention=90m&timeout=3s&max_ttl=2m&node_timeout=50ms&pool_size=7"}
	l, err := o.locate()
	require.NoError(t, err)
	o.URL = ""
	require.Equal(t, Options{
		Mode: Redlock, Master: "m", SentinelUsername: "su", Prefix: "a b", Retention: 90 * time.Minute, Timeout: 3 * time.Second,
		MaxTTL: 2 * time.Minute, NodeTimeout: 50 * time.Millisecond,
	}, o)
	require.Equal(t, url.Values{"pool_size": {"7"}}, l.query)

	o = Options{URL: "redis://h?retention=forever"}
	_, err = o.locate()
	require.NoError(t, err)
	require.Equal(t, abstractions.Infinite, o.Retention)
}

// clientsOf returns the clients that Open makes.
func clientsOf(t *testing.T, o Options) []redis.UniversalClient {
	t.Helper()
	l, err := o.complete()
	require.NoError(t, err)
	clients, err := l.open(o)
	require.NoError(t, err)
	for _, client := range clients {
		closed(t, client)
	}
	return clients
}

func clientOf[T redis.UniversalClient](t *testing.T, o Options) T {
	t.Helper()
	client, ok := clientsOf(t, o)[0].(T)
	require.True(t, ok)
	return client
}

func TestClientOfOneServer(t *testing.T) {
	c := clientOf[*redis.Client](t, Options{URL: "redis://u:p%40@h:7/3"}).Options()
	require.Equal(t, []any{"tcp", "h:7", "u", "p@", 3}, []any{c.Network, c.Addr, c.Username, c.Password, c.DB})
	require.Nil(t, c.TLSConfig)
	require.True(t, c.ContextTimeoutEnabled)
	require.True(t, c.DisableIdentity)
	require.Zero(t, c.MaxRetries, "as go-redis writes none")
	require.Equal(t, 1, c.DialerRetries)
	require.Equal(t, dialTimeout, c.DialTimeout)
	require.Equal(t, poolSize, c.PoolSize)
	require.Greater(t, c.PoolSize, batch.MaxCalls, "calls that hang leave room for others")
	require.Equal(t, maintnotifications.ModeDisabled, c.MaintNotificationsConfig.Mode)

	c = clientOf[*redis.Client](t, Options{URL: "redis://h?max_retries=2&pool_size=9&dial_timeout=1s&read_timeout=2s&client_name=me&protocol=2"}).Options()
	require.Equal(t, []any{"h:6379", 2, 9, time.Second, 2 * time.Second, "me", 2}, []any{c.Addr, c.MaxRetries, c.PoolSize, c.DialTimeout, c.ReadTimeout, c.ClientName, c.Protocol})

	c = clientOf[*redis.Client](t, Options{URL: "unix://u:p@/run/a%20b.sock?db=2"}).Options()
	require.Equal(t, []any{"unix", "/run/a b.sock", "u", "p", 2}, []any{c.Network, c.Addr, c.Username, c.Password, c.DB})
}

func TestClientOfACluster(t *testing.T) {
	c := clientOf[*redis.ClusterClient](t, Options{URL: "redis://u:p@h1:7,h2,[::1]:8/0?mode=cluster&max_redirects=5"}).Options()
	require.Equal(t, []string{"h1:7", "h2:6379", "[::1]:8"}, c.Addrs)
	require.Equal(t, []any{"u", "p", 5, -1, 1, poolSize, dialTimeout}, []any{c.Username, c.Password, c.MaxRedirects, c.MaxRetries, c.DialerRetries, c.PoolSize, c.DialTimeout})
	require.True(t, c.ContextTimeoutEnabled)
	require.True(t, c.DisableIdentity)
	require.True(t, c.DisableRoutingPolicies)
	require.Equal(t, maintnotifications.ModeDisabled, c.MaintNotificationsConfig.Mode)

	c = clientOf[*redis.ClusterClient](t, Options{URL: "redis://h", Mode: Cluster}).Options()
	require.Equal(t, 3, c.MaxRedirects, "they stay")
}

func TestClientOfSentinels(t *testing.T) {
	o := Options{URL: "redis://u:p@h1,h2:7/3?master=m&dialer_retries=2", SentinelUsername: "su", SentinelPassword: "sp"}
	c := clientOf[*redis.Client](t, o).Options()
	require.Equal(t, []any{failoverAddr, "u", "p", 3, 0, 2, poolSize}, []any{c.Addr, c.Username, c.Password, c.DB, c.MaxRetries, c.DialerRetries, c.PoolSize})
	require.True(t, c.ContextTimeoutEnabled)
	require.Equal(t, maintnotifications.ModeDisabled, c.MaintNotificationsConfig.Mode)

	l, err := o.locate()
	require.NoError(t, err)
	s, err := l.sentinel(o)
	require.NoError(t, err)
	require.Equal(t, []any{"m", "su", "sp"}, []any{s.MasterName, s.SentinelUsername, s.SentinelPassword})
	require.Equal(t, []string{"h1:26379", "h2:7"}, s.SentinelAddrs)
}

func TestClientsOfRedlock(t *testing.T) {
	var addrs []string
	for _, client := range clientsOf(t, Options{URL: "redis://u:p@h1,h2:7,[::1]/3?mode=redlock"}) {
		c := client.(*redis.Client).Options()
		addrs = append(addrs, c.Addr)
		require.Equal(t, []any{"u", "p", 3}, []any{c.Username, c.Password, c.DB})
	}
	require.Equal(t, []string{"h1:6379", "h2:7", "[::1]:6379"}, addrs)
}

// A server's certificate must match the name in the options, if there is a name.
func TestTLSNames(t *testing.T) {
	own := &tls.Config{MinVersion: tls.VersionTLS13}
	named := &tls.Config{ServerName: "n", MinVersion: tls.VersionTLS13}
	for _, test := range []struct {
		url  string
		mode Mode
		own  *tls.Config
		want string
		min  uint16
	}{
		{"rediss://h1:7", Single, nil, "h1", tls.VersionTLS12},
		{"rediss://[::1]", Single, nil, "::1", tls.VersionTLS12},
		{"rediss://h1:7", Single, own, "h1", tls.VersionTLS13},
		{"rediss://h1:7", Single, named, "n", tls.VersionTLS13},
		{"rediss://h1:7", Cluster, nil, "h1", tls.VersionTLS12},
		{"rediss://h1,h2", Cluster, nil, "", tls.VersionTLS12},
		{"rediss://h1,h2", Cluster, named, "n", tls.VersionTLS13},
		{"rediss://h1", Sentinel, nil, "", tls.VersionTLS12},
		{"rediss://h1", Sentinel, own, "", tls.VersionTLS13},
	} {
		o := Options{URL: test.url, Mode: test.mode, TLS: test.own}
		if test.mode == Sentinel {
			o.Master = "m"
		}
		var c *tls.Config
		if test.mode == Cluster {
			c = clientOf[*redis.ClusterClient](t, o).Options().TLSConfig
		} else {
			c = clientOf[*redis.Client](t, o).Options().TLSConfig
		}
		require.Equal(t, test.want, c.ServerName, "%v", test)
		require.Equal(t, test.min, c.MinVersion, "%v", test)
		require.False(t, c.InsecureSkipVerify)
	}
	require.Empty(t, own.ServerName, "it is the user's")
	c := clientOf[*redis.Client](t, Options{URL: "rediss://h?skip_verify=true"}).Options()
	require.True(t, c.TLSConfig.InsecureSkipVerify)
}

// No text causes a panic. An accepted URL has a host unless it names a socket, and go-redis gets it
// without user and password.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/0?mode=cluster", "redis://h1,h2,h3?mode=redlock", "unix://:p@/s?db=1", "rediss://[::1]:1",
		"redis://u:p/w@h", "redis://u:12?w@h", "redis://u:p#w@h", "redis://%", "redis://h?x=%", "redis://@h",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := (&Options{URL: text}).locate()
		if err != nil {
			require.ErrorIs(t, err, abstractions.ErrInvalid)
			return
		}
		require.Equal(t, l.scheme == "unix", len(l.hosts) == 0)
		for _, addr := range l.addrs(redisPort) {
			again, err := url.Parse(l.forLibrary(addr))
			require.NoError(t, err)
			require.Equal(t, addr, again.Host)
			require.Nil(t, again.User)
		}
	})
}
