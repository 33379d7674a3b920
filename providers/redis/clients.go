package redislease

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	redisPort    = "6379"
	sentinelPort = "26379"
	// dialTimeout leaves time for a TLS handshake across an ocean, or for one lost
	// packet. A call that needs a new connection waits only until its context ends.
	dialTimeout = 3 * time.Second
	// poolSize limits the number of connections to a server. Calls that hang must not
	// keep others from a connection. Usually only three connections are open.
	poolSize = batch.MaxCalls + 16
)

// open makes the clients of a URL.
func (l location) open(o Options) ([]redis.UniversalClient, error) {
	if o.Credentials != nil {
		o.Credentials = guardedCredentials{o.Credentials}
	}
	switch o.Mode {
	case Cluster:
		c, err := l.cluster(o)
		if err != nil {
			return nil, err
		}
		return []redis.UniversalClient{redis.NewClusterClient(c)}, nil
	case Sentinel:
		c, err := l.sentinel(o)
		if err != nil {
			return nil, err
		}
		return []redis.UniversalClient{redis.NewFailoverClient(c)}, nil
	}
	clients := make([]redis.UniversalClient, 0, len(l.hosts))
	for _, addr := range l.addrs(redisPort) {
		c, err := redis.ParseURL(l.forLibrary(addr))
		if err != nil {
			return nil, badParameter(err)
		}
		c.StreamingCredentialsProvider = o.Credentials
		c.Username, c.Password, c.TLSConfig = l.user, l.password, l.tls(o, c.TLSConfig)
		c.ContextTimeoutEnabled, c.DisableIdentity, c.MaintNotificationsConfig = true, true, noMaintenance()
		c.DialerRetries, c.OnConnect = 1, l.onConnect(o)
		setDefaults(&c.MaxRetries, &c.PoolSize, &c.PipelinePoolSize, &c.DialTimeout)
		c.Dialer = dialer(c.TLSConfig)
		clients = append(clients, redis.NewClient(c))
	}
	return clients, nil
}

func (l location) cluster(o Options) (*redis.ClusterOptions, error) {
	addrs := l.addrs(redisPort)
	c, err := redis.ParseClusterURL(l.forLibrary(addrs[0]))
	if err != nil {
		return nil, badParameter(err)
	}
	c.Addrs = addrs
	c.StreamingCredentialsProvider = o.Credentials
	c.Username, c.Password, c.TLSConfig = l.user, l.password, l.tls(o, c.TLSConfig)
	c.ContextTimeoutEnabled, c.DisableIdentity, c.MaintNotificationsConfig = true, true, noMaintenance()
	c.DisableRoutingPolicies = true // the policies would request a list of all commands from each server
	c.DialerRetries = cmp.Or(c.DialerRetries, 1)
	setDefaults(&c.MaxRetries, &c.PoolSize, &c.PipelinePoolSize, &c.DialTimeout)
	c.Dialer = dialer(c.TLSConfig)
	return c, nil
}

func (l location) sentinel(o Options) (*redis.FailoverOptions, error) {
	addrs := l.addrs(sentinelPort)
	c, err := redis.ParseFailoverURL(l.forLibrary(addrs[0]))
	if err != nil {
		return nil, badParameter(err)
	}
	c.MasterName, c.SentinelAddrs = o.Master, addrs
	c.SentinelUsername, c.SentinelPassword = o.SentinelUsername, o.SentinelPassword
	if o.Credentials != nil {
		c.CredentialsProviderContext = signInOnce(o.Credentials)
	}
	c.Username, c.Password, c.TLSConfig = l.user, l.password, l.tls(o, c.TLSConfig)
	c.ContextTimeoutEnabled, c.DisableIdentity = true, true // a failover client never requests maintenance notifications
	c.OnConnect = l.onConnect(o)
	c.DialerRetries = cmp.Or(c.DialerRetries, 1)
	setDefaults(&c.MaxRetries, &c.PoolSize, &c.PipelinePoolSize, &c.DialTimeout)
	c.Dialer = dialer(c.TLSConfig)
	return c, nil
}

// onConnect detects a missing password. A call has more arguments than Redis accepts
// before authentication, so the call would fail with a protocol error. HELLO needs no
// permission, and is unknown before Redis 6.
func (l location) onConnect(o Options) func(context.Context, *redis.Conn) error {
	if l.password != "" || o.Credentials != nil {
		return nil
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		err := conn.Do(ctx, "hello").Err()
		if answered := redis.Error(nil); errors.As(err, &answered) && failure.Classify(err).Class != providerkit.Denied {
			return nil
		}
		return err
	}
}

// setDefaults sets the parameters that the URL leaves out: a call and a dial are each tried once, since package
// leasing retries. Pipelines share the pool of all calls, whose idle connections package node checks.
func setDefaults(maxRetries, pool, pipelines *int, dial *time.Duration) {
	*pipelines = -1
	*maxRetries, *pool, *dial = cmp.Or(*maxRetries, -1), cmp.Or(*pool, poolSize), cmp.Or(*dial, dialTimeout)
}

// noMaintenance turns off a request, on each new connection, for notifications that
// only Redis Enterprise sends.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// tls returns the TLS configuration for a URL. go-redis would check each server's
// certificate against the first host, which is right only if one name leads to a whole
// cluster.
func (l location) tls(o Options, c *tls.Config) *tls.Config {
	if l.scheme != "rediss" {
		return nil
	}
	name := ""
	if len(l.hosts) == 1 && o.Mode != Sentinel {
		name, _, _ = splitHost(l.hosts[0])
	}
	if o.TLS != nil {
		c = o.TLS.Clone()
		name = cmp.Or(c.ServerName, name)
	}
	c.ServerName, c.MinVersion = name, cmp.Or(c.MinVersion, tls.VersionTLS12)
	return c
}

// badParameter converts go-redis' error about the parameters in a URL. The error
// names the parameters, and contains no password: see forLibrary.
func badParameter(err error) error {
	text := err.Error()
	if bad := (*url.Error)(nil); errors.As(err, &bad) {
		text = "the URL is malformed"
	}
	return providerkit.BadURL("a URL of Redis: " + strings.TrimPrefix(text, "redis: "))
}

// signInOnce gets the credentials once for each new connection. A client of sentinels needs this: go-redis 9.23 creates no
// manager of StreamingCredentialsProvider for such a client, and calls the nil manager (sentinel.go, NewFailoverClient).
func signInOnce(from auth.StreamingCredentialsProvider) func(context.Context) (user, password string, err error) {
	return func(context.Context) (string, string, error) {
		credentials, unsubscribe, err := from.Subscribe(noListener{})
		if err != nil {
			return "", "", err
		}
		user, password := credentials.BasicAuth()
		return user, password, unsubscribe()
	}
}

// noListener ignores updates of credentials that are used once.
type noListener struct{}

func (noListener) OnNext(auth.Credentials) {}
func (noListener) OnError(error)           {}

// guardedCredentials wrap the application's credentials, whose errors do not come from Redis. go-redis calls the
// credentials in a goroutine of its own.
type guardedCredentials struct {
	auth.StreamingCredentialsProvider
}

func (g guardedCredentials) Subscribe(l auth.CredentialsListener) (c auth.Credentials, unsubscribe auth.UnsubscribeFunc, err error) {
	err = providerkit.GuardCredentials(nil, func() (err error) {
		if c, unsubscribe, err = g.StreamingCredentialsProvider.Subscribe(l); err == nil && c == nil {
			err = errors.New("the source has returned no credentials")
		}
		return err
	})
	return c, unsubscribe, err
}
